/* What other threads have for a shard, until its owner takes it.
 *
 * A mutex that is held for a few pointer moves only. It wakes nobody: shard.h does.
 */
#ifndef HF_INBOX_H
#define HF_INBOX_H

#include <pthread.h>

#include "requests.h"

/* What policy orders for a host. */
enum { HF_ORDER_GATE, HF_ORDER_DELAY };
typedef struct hf_order {
    int32_t kind;  /* HF_ORDER_… */
    int64_t value; /* us */
    char host[256];
} hf_order;

/* Everything posted since the last time. */
typedef struct hf_posted {
    hf_requests submitted;
    hf_verdict *verdicts; /* owned array, as the next two */
    hf_order *orders;
    uint64_t *cancels; /* seq */
    int32_t n_verdicts, n_orders, n_cancels;
    int64_t stop_at; /* us: in flight is aborted then; HF_NEVER = no stop asked */
} hf_posted;

typedef struct hf_inbox {
    pthread_mutex_t lock;
    hf_posted posted;
    int32_t cap_verdicts, cap_orders, cap_cancels;
} hf_inbox;

void hf_inbox_init(hf_inbox *in);
void hf_inbox_free(hf_inbox *in);

/* --- any thread; each blocks for the mutex only ------------------------------------
 */

/* Hands a list over.  Owns: the inbox from now on, requests included. */
void hf_inbox_submit(hf_inbox *in, hf_requests *list);

/* Copy what is given. Return 0 or HF_ENOMEM. */
int hf_inbox_verdicts(hf_inbox *in, const hf_verdict *v, int32_t n);
int hf_inbox_order(hf_inbox *in, const hf_order *order);
int hf_inbox_cancel(hf_inbox *in, uint64_t seq);

/* The earliest stop asked for holds. */
void hf_inbox_stop(hf_inbox *in, int64_t stop_at);

/* When what is in flight is aborted: HF_NEVER while no stop is asked. */
int64_t hf_inbox_stop_at(hf_inbox *in);

/* --- the shard's owner -------------------------------------------------------------
 */

/* Moves all of it out. Owns: the caller, who ends it with hf_posted_free. The stop
 * stays as well. */
void hf_inbox_take(hf_inbox *in, hf_posted *out);
void hf_posted_free(hf_posted *p);

/* True when something is there, a stop sooner than stop_at included. */
bool hf_inbox_waits(hf_inbox *in, int64_t stop_at);

#endif
