/* The parts of a shard among themselves: admit, judge, report. The owner's thread only.
 *
 * Requests come in by shard_admit.c, go from host to host by shard_hop.c, end their
 * attempts in shard_judge.c and leave by shard_report.c; shard.c holds it together.
 */
#ifndef HF_SHARD_PARTS_H
#define HF_SHARD_PARTS_H

#include "shard.h"

/* Bytes of memory for a head that a response keeps for the next request. Each of them
 * meets one large head in the end, so that this times their number stays. */
#define HF_KEEP_BYTES 8192

/* Bytes of a body that are searched for policy's patterns. */
#define HF_MATCH_BYTES ((size_t)65536)

/* --- admit -------------------------------------------------------------------------
 */

/* Takes a new request into the backlog; one that is invalid or too late is answered. */
void hf_shard_file(hf_shard *s, hf_request *r, int64_t now);

/* Room for every due that may come, so that no limit is ever lost for want of memory.
 * Returns 0 or HF_ENOMEM. */
int hf_shard_reserve(hf_shard *s);

/* One transfer less in flight; wakes a shard that waits for that. */
void hf_shard_give_slot(hf_shard *s);

/* --- ask ---------------------------------------------------------------------------
 */

/* Tells policy of a request, with these HF_EV_… besides. Returns false when there is no
 * room for it. */
bool hf_shard_tell(hf_shard *s, hf_request *r, int flags, int64_t now);

/* Whether policy is to look at the body of the answer that r has got. */
bool hf_shard_asks_body(const hf_shard *s, const hf_request *r);

/* Lets a request wait for policy's verdict. */
void hf_shard_judge(hf_shard *s, hf_request *r, int64_t now);

/* Tells policy that the breaker of a host has opened. */
void hf_shard_tell_opened(hf_shard *s, const hf_host *h);

/* Puts what waited for room in the event ring before policy. */
void hf_shard_ask(hf_shard *s, int64_t now);

/* --- judge -------------------------------------------------------------------------
 */

/* Ends the flight of a running request at its host, which came to `end`: host and
 * engine may start another. Its exit stays its own. */
void hf_shard_land(hf_shard *s, hf_request *r, const hf_pace_end *end, int64_t now);

/* Ends the flight of r, or of a ticket, at its host, which came to `end`. Where policy
 * closes gates for that, the host's is closed at once. */
void hf_shard_leave_host(hf_shard *s, hf_request *r, const hf_pace_end *end,
                         int64_t now);

/* Applies a verdict of policy. One for a request that waits for none is passed over. */
void hf_shard_verdict(hf_shard *s, const hf_verdict *v, int64_t now);

/* Cancels a request. Returns true when it runs: it is marked then, for the loop. */
bool hf_shard_cancel(hf_shard *s, uint64_t seq, int64_t now);

/* Ends admission: the backlog is dropped, what waits for policy keeps its outcome. */
void hf_shard_end_admission(hf_shard *s, int64_t now);

/* --- report ------------------------------------------------------------------------
 */

/* Lets go of a request that a stop leaves unanswered: `shutdown`, or no record. */
void hf_shard_drop(hf_shard *s, hf_request *r, int64_t now);

/* Lets go of a request whose record is out and was found good. */
void hf_shard_settle(hf_shard *s, hf_request *r);

/* A response from the pool, or a new one; NULL without memory. */
hf_response *hf_shard_response(hf_shard *s);

/* Puts one back; NULL is allowed. */
void hf_shard_recycle(hf_shard *s, hf_response *resp);

/* Frees the pool. */
void hf_shard_free_responses(hf_shard *s);

#endif
