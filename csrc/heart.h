/* A loop's sign of life: whether it is inside libcurl, in which call, since when.
 *
 * The shard belongs to the loop while the heart is OUT, and through each callback.
 * While it is IN the watchdog may move it to LOST, and owns the shard from then on: the
 * loop learns it when the call returns, or in the next callback, and touches nothing of
 * the shard any more.
 */
#ifndef HF_HEART_H
#define HF_HEART_H

#include <stdbool.h>

#include "atomics.h"

enum { HF_HEART_OUT, HF_HEART_IN, HF_HEART_LOST };

typedef struct hf_heart {
    hf_atomic_u32 state;
    _Atomic(int64_t) since;     /* us, start of the call; exact while IN */
    _Atomic(const char *) call; /* libcurl function, static text */
} hf_heart;

/* Before a call into libcurl. Thread: the loop. */
static inline void hf_heart_enter(hf_heart *h, const char *call, int64_t now) {
    atomic_store_explicit(&h->call, call, HF_RELAXED);
    atomic_store_explicit(&h->since, now, HF_RELAXED);
    /* Pairs with hf_heart_take: the watchdog sees the shard as the loop left it. */
    hf_store(&h->state, HF_HEART_IN, HF_RELEASE);
}

/* Back inside after a callback; the call goes on. */
static inline void hf_heart_resume(hf_heart *h) {
    hf_store(&h->state, HF_HEART_IN, HF_RELEASE);
}

/* After a call, or at the start of a callback. Returns false when the shard was taken
 * away; it never comes back. */
static inline bool hf_heart_leave(hf_heart *h) {
    uint32_t in = HF_HEART_IN;
    return hf_cas(&h->state, &in, HF_HEART_OUT, HF_ACQ_REL, HF_ACQUIRE);
}

/* Takes the shard of a loop that is inside libcurl. Thread: the watchdog.
 * Returns false when the loop has come out meanwhile. */
static inline bool hf_heart_take(hf_heart *h) {
    uint32_t in = HF_HEART_IN;
    return hf_cas(&h->state, &in, HF_HEART_LOST, HF_ACQ_REL, HF_ACQUIRE);
}

#endif
