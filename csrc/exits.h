/* The table of exits (proxies) from which attempts pick. Python keeps it; C picks.
 *
 * Two live exits of the lowest tier that has one are drawn at random, and the one that
 * costs less (peak-EWMA latency × in flight, over weight) serves; a benched one whose
 * time is over gets one request as a probe. A session keeps its exit. One mutex: a pick
 * is some 100 ns, and only requests without a proxy of their own need one.
 */
#ifndef HF_EXITS_H
#define HF_EXITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hf.h"

typedef struct hf_exit hf_exit;
typedef struct hf_pin hf_pin;

typedef struct hf_exits {
    pthread_mutex_t lock;
    hf_exit **rows; /* owned; in no order */
    int32_t n;
    int32_t cap;
    bool active;        /* a table was given */
    int64_t wait_limit; /* us */
    int64_t sticky;     /* us a session keeps its exit, 0 = it does not */
    hf_pin **pins;      /* owned table: session to exit */
    uint32_t n_pins;
    uint64_t random;
} hf_exits;

void hf_exits_init(hf_exits *x);
void hf_exits_free(hf_exits *x);

/* Replaces lines by number. Returns 0 or HF_ENOMEM. Any thread, as all of these. */
int hf_exits_update(hf_exits *x, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky, int64_t now);

/* Whether requests without a proxy of their own must pick one. */
bool hf_exits_active(hf_exits *x);

/* What a pick came to. */
typedef struct hf_pick {
    int32_t number;
    bool probe;    /* a benched exit is tried again with this one */
    int64_t until; /* with HF_EAGAIN: when to try again, INT64_MAX = at a change */
    char url[512];
} hf_pick;

/* Picks an exit and counts it in flight. Returns 0 or HF_EAGAIN. */
int hf_exits_pick(hf_exits *x, const uint8_t *session, size_t n, int64_t now,
                  hf_pick *out);

/* Counts a start over an exit that policy named. */
void hf_exits_start(hf_exits *x, int32_t number);

/* Ends what pick or start began; ok: a response came, so elapsed tells its latency. */
void hf_exits_end(hf_exits *x, int32_t number, bool ok, int64_t elapsed, int64_t now);

int hf_exits_stats(hf_exits *x, hf_exit_stats *out, int max);

#endif
