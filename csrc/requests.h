/* Requests in numbers: a list in order, and a table by seq.
 *
 * Both are made of pointers inside the requests and own none of them. A request is in
 * one list at most. Not thread-safe: one owner.
 */
#ifndef HF_REQUESTS_H
#define HF_REQUESTS_H

#include "request.h"

/* A list by next and prev. */
typedef struct hf_requests {
    hf_request *first;
    hf_request *last;
    uint64_t n;
} hf_requests;

void hf_requests_append(hf_requests *l, hf_request *r);
void hf_requests_remove(hf_requests *l, hf_request *r);

/* Takes the first one out; NULL when there is none. */
hf_request *hf_requests_take(hf_requests *l);

/* Moves all of `from` behind what is in `to`. */
void hf_requests_join(hf_requests *to, hf_requests *from);

/* All requests that a shard holds, by seq: chains by `same`. */
typedef struct hf_held {
    hf_request **at; /* owned array; NULL without a successful init */
    uint32_t size;   /* a power of two */
    uint64_t n;      /* requests in it */
} hf_held;

/* Returns 0 or HF_ENOMEM. */
int hf_held_init(hf_held *h);

/* Frees the table; what is in it stays its owner's. */
void hf_held_free(hf_held *h);

/* Enters a request. It cannot fail: without memory the chains just get longer. */
void hf_held_add(hf_held *h, hf_request *r);

/* Takes it out, if it is in. */
void hf_held_remove(hf_held *h, hf_request *r);

/* The one with this seq, or NULL. */
hf_request *hf_held_find(const hf_held *h, uint64_t seq);

#endif
