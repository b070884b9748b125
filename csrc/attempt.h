/* The attempts of a loop, from start to end: what goes into a multi, and what comes of
 * it when it is out.
 *
 * Each of these may find the loop lost when libcurl comes back, and then leaves
 * everything as it is. Thread: the loop.
 */
#ifndef HF_ATTEMPT_H
#define HF_ATTEMPT_H

#include "loop.h"

/* Starts a request that hf_shard_next gave; one that can't start is ended at once. */
void hf_attempt_start(hf_loop *l, hf_request *r);

/* libcurl is done with t: the next hop, or the end. */
void hf_attempt_done(hf_loop *l, hf_transfer *t, int code);

/* Ends t by a deadline (HF_DUE_…) that was due at `at`. */
void hf_attempt_expire(hf_loop *l, hf_transfer *t, int due, int64_t at);

/* Ends a running request that was cancelled, or that a stop cuts off. */
void hf_attempt_abort(hf_loop *l, hf_request *r);

#endif
