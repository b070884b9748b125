/* The watchdog: a thread that keeps deadlines when libcurl does not come back.
 *
 * It looks at each loop's heart every 50 ms. A libcurl call longer than 200 ms is a
 * stall: counted and named. When a loop is inside a call half a second past the first
 * hard limit in flight, or past the time of a stop, its sockets are shut down, which
 * frees a loop that is stuck on one; if that does not help the shard is taken away: its
 * transfers are reported as engine_stalled, a new loop goes on with the backlog, and
 * the old one is left behind.
 */
#ifndef HF_WATCHDOG_H
#define HF_WATCHDOG_H

#include "loop.h"

struct hf_engine;

typedef struct hf_watchdog {
    struct hf_engine *engine;
    pthread_t thread;
    bool started;
    hf_wake wake;
    hf_atomic_u32 quit;
    hf_loop *left_behind; /* loops given up, linked by next */
    hf_stat stalls;
    hf_stat leaked;
    hf_stat stalled_us;                 /* longest */
    _Atomic(const char *) stalled_call; /* and its name */
} hf_watchdog;

/* Starts the thread. Returns 0 or HF_ESYS. */
int hf_watchdog_start(hf_watchdog *w, struct hf_engine *e, hf_errbuf err);

/* Ends the thread. May be called for one that was never started. */
void hf_watchdog_stop(hf_watchdog *w);

/* Leaves a loop behind that is stuck. Thread: the watchdog, or once it has ended. */
void hf_watchdog_leave(hf_watchdog *w, hf_loop *l);

/* Frees the loops left behind that have ended since. Returns false when one has not. */
bool hf_watchdog_reap(hf_watchdog *w);

void hf_watchdog_stats(const hf_watchdog *w, hf_stats *out);

#endif
