/* The parts of the table of exits among themselves: exits.c keeps it, exits_pick.c
 * picks from it. All of this is called with the lock held.
 */
#ifndef HF_EXITS_PARTS_H
#define HF_EXITS_PARTS_H

#include "exits.h"

#define HF_EXIT_DECAY 10000000.0 /* us, time constant of the latency's fall */

struct hf_exit {
    hf_exit_row row;
    int64_t until; /* us, monotonic: end of its bench */
    int32_t in_flight;
    int32_t streak; /* own failures in a row */
    bool probing;
    uint64_t started;
    uint64_t answered;
    int64_t last_ok; /* us; INT64_MIN = never */
    double latency;  /* us, peak EWMA; 0 = not measured */
    int64_t measured_at;
    uint64_t owner; /* session that leases it */
    int64_t owner_until;
};

/* The exit with this number, or NULL. */
hf_exit *hf_exits_find(const hf_exits *x, int32_t number);

/* The key of an exit and a host in a memo. */
uint64_t hf_exits_pair_key(const char *host, size_t host_len, int32_t number);

/* Sets probe_at anew: some bench was changed. */
void hf_exits_plan_probe(hf_exits *x);

/* Notes that a session leaves by e from now on, if there is a session. Returns false
 * when the exit is another's. */
bool hf_exits_pin(hf_exits *x, hf_exit *e, const hf_wish *w, int64_t now);

#endif
