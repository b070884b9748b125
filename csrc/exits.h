/* The table of exits (proxies) from which attempts pick. Python keeps it; C picks.
 *
 * The compiled side of hardfetch/proxies.py, which decides who is up, benched or gone.
 * Tiers are tried from the lowest up. Of a tier, a benched exit whose time is over gets
 * one request as a probe; else two live ones are drawn at random, and the one that
 * costs less (latency x in flight, over weight) serves. A session keeps its exit. An
 * exit that never answered gets few requests until it does: were it silent, all the
 * others would sit there until their time-outs.
 *
 * One mutex: a pick is some 100 ns, and only requests without a proxy of their own need
 * one.
 */
#ifndef HF_EXITS_H
#define HF_EXITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hf.h"
#include "memo.h"

typedef struct hf_exit hf_exit;

/* Some of the shelf: the live exits of one tier. */
typedef struct hf_exit_tier {
    int32_t tier;
    int32_t at; /* in the shelf */
    int32_t n;  /* 0: all of this tier are benched */
} hf_exit_tier;

typedef struct hf_exits {
    pthread_mutex_t lock;
    hf_exit **rows; /* owned; by number */
    int32_t n;
    int32_t cap;
    hf_exit **shelf;     /* owned array of those that are up, by tier */
    hf_exit_tier *tiers; /* owned array, lowest first */
    int32_t n_tiers;
    int64_t probe_at;   /* us: when the next bench is over; INT64_MAX = never */
    bool active;        /* a table was given */
    int64_t wait_limit; /* us */
    int64_t sticky;     /* us that a session keeps its exit, 0 = it does not */
    hf_memo pins;       /* session to exit */
    hf_memo failures;   /* (host, exit) to failures in a row */
    hf_memo refusals;   /* (host, exit) that is avoided; host to its lowest tier */
    uint64_t random;
    double typical; /* us: latency of whatever exits answer; 0 = none did */
} hf_exits;

void hf_exits_init(hf_exits *x);
void hf_exits_free(hf_exits *x);

/* Replaces lines by number. Returns 0 or HF_ENOMEM. Any thread, as all of these. */
int hf_exits_update(hf_exits *x, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky, int64_t now);

/* Whether requests without a proxy of their own must pick one. */
bool hf_exits_active(hf_exits *x);

/* Until then, no request to host leaves by exit `number` where there is another; with
 * number -1, its requests start at `tier`. */
void hf_exits_avoid(hf_exits *x, const char *host, int32_t number, int32_t tier,
                    int64_t until, int64_t now);

/* Who wants an exit. */
typedef struct hf_wish {
    const uint8_t *session; /* NULL = none */
    size_t session_len;
    const char *host; /* host:port */
    size_t host_len;
} hf_wish;

/* What a pick came to. */
typedef struct hf_pick {
    int32_t number;
    bool probe;    /* a benched exit is tried again with this one */
    bool leased;   /* with HF_EAGAIN: only its own exit will do, which is busy */
    int64_t until; /* with HF_EAGAIN: when to try again, INT64_MAX = at a change */
    char url[512];
} hf_pick;

/* Picks an exit and counts it in flight. Returns 0 or HF_EAGAIN. */
int hf_exits_pick(hf_exits *x, const hf_wish *w, int64_t now, hf_pick *out);

/* Counts a start over an exit that policy named; a session keeps to that one. Returns
 * false, and counts none, when that is gone since, or leased to another. */
bool hf_exits_start(hf_exits *x, int32_t number, const hf_wish *w, int64_t now);

/* What an end says about the exit. */
enum {
    HF_EXIT_NO_NEWS,
    HF_EXIT_ANSWERED, /* whatever came, the exit carried it */
    HF_EXIT_FAILED,   /* its own failure */
    HF_EXIT_SUSPECT   /* its own, or the site's */
};

/* Ends what pick or start began. */
void hf_exits_end(hf_exits *x, int32_t number, int news, int64_t elapsed, int64_t now);

/* It has answered, and its request goes on with another host after a wait: ended unless
 * the exit serves one at a time, when it stays taken. Returns whether it does; if not,
 * hf_exits_start takes it again. */
bool hf_exits_rest(hf_exits *x, int32_t number, int64_t elapsed, int64_t now);

/* Counts failures in a row of an exit with a host. Returns how many: 0 once served. */
int32_t hf_exits_pair(hf_exits *x, int32_t number, const hf_wish *w, bool served,
                      int64_t now);

/* us since the exit answered last, -1 = never. */
int64_t hf_exits_quiet(hf_exits *x, int32_t number, int64_t now);

int hf_exits_stats(hf_exits *x, hf_exit_stats *out, int max);

#endif
