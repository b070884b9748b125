/* How fast one host may be asked: rate, delay, gate, breaker and adaptive rate.
 *
 * The compiled twin of hardfetch/hosts.py and hardfetch/adaptive.py, which explain the
 * constants and are what the simulator runs; a test compares the two. Pure: no clock,
 * no I/O, no memory of its own. Times are us.
 */
#ifndef HF_PACE_H
#define HF_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "hf.h"

/* The rate that a host bears, found by additive increase, multiplicative decrease. */
typedef struct hf_adaptive {
    double rate;       /* starts per second */
    double climb;      /* per second; 0 = never cut yet */
    double paused;     /* s that refusals have cost since the last cut */
    int64_t raised_at; /* INT64_MIN = never */
    int64_t cut_at;    /* INT64_MIN = never */
    double best;       /* latency in s, a low quantile */
    double smooth;     /* latency in s, smoothed */
} hf_adaptive;

typedef struct hf_pace {
    const hf_host_limits *limits; /* NULL: nothing applies */
    int64_t next_at;              /* earliest next start by rate and delay */
    int64_t gate_until;           /* 0 = open */
    int64_t open_until;           /* breaker; 0 = closed */
    int64_t host_delay;           /* asked for from outside (robots.txt) */
    int64_t last_ok;              /* last sign of life; INT64_MIN = none */
    uint64_t requests;            /* first attempts started */
    int32_t streak;               /* failures in a row */
    uint32_t opened;              /* times that the breaker opened */
    bool held;                    /* somebody waits for next_at */
    bool probing;                 /* the probe is under way */
    hf_adaptive adaptive;
} hf_pace;

enum { HF_PACE_GO, HF_PACE_WAIT, HF_PACE_REFUSE };

/* What a start was granted as. */
typedef struct hf_grant {
    bool probe;     /* the one that a closed gate or breaker lets through */
    bool limited;   /* others had to wait for the rate */
    bool first;     /* a first attempt */
    int64_t before; /* next_at, for taking it back */
} hf_grant;

/* How an attempt ended, as far as the host is concerned. */
typedef struct hf_pace_end {
    int32_t type;    /* HF_T_… */
    int32_t origin;  /* HF_O_… */
    int32_t status;  /* 0 = none */
    int64_t elapsed; /* us */
    bool via_proxy;
} hf_pace_end;

/* Begins a host's pace. */
void hf_pace_init(hf_pace *p, const hf_host_limits *limits);

/* Whether a request may start now. With HF_PACE_WAIT *until tells when to ask again,
 * INT64_MAX for "when an attempt ends". */
int hf_pace_ask(hf_pace *p, int64_t now, int64_t *until);

/* Takes the start that hf_pace_ask allowed. random: any 64 bits. */
hf_grant hf_pace_start(hf_pace *p, bool first_attempt, uint64_t random, int64_t now);

/* Undoes the last start: nothing was sent. */
void hf_pace_take_back(hf_pace *p, hf_grant grant);

/* Learns from an attempt that ended. */
void hf_pace_finish(hf_pace *p, hf_grant grant, const hf_pace_end *end, int64_t now);

/* Lets nobody through before `until`, then one probe. */
void hf_pace_close_gate(hf_pace *p, int64_t until, int64_t now);

/* Nothing would be lost but statistics and a learned rate. */
bool hf_pace_idle(const hf_pace *p, int64_t now);

#endif
