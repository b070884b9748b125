#include "pace.h"

#include <string.h>

#include "err.h"

#define SECOND 1000000.0
#define NEVER_BEFORE INT64_MIN
#define PROBE_AGAIN 1000000 /* us until the next probe when one told nothing */

/* hardfetch/adaptive.py says why. */
#define START_RATE 2.0
#define MINIMUM_RATE (1.0 / 60.0)
#define GROWTH 0.35
#define FIRST_CUT 0.65
#define CUT 0.88
#define CLIMB 0.005
#define CLIMB_SLOW 0.0012
#define PATIENCE 12.0
#define MAX_STEP 1.0
#define SLOW 3.0
#define SLACK 0.1
#define SMOOTH 0.1
#define FALL 0.05
#define RISE 0.002

static double least(double a, double b) {
    return a < b ? a : b;
}

static double most(double a, double b) {
    return a > b ? a : b;
}

/* --- the adaptive rate -------------------------------------------------------------
 */

static double maximum(const hf_pace *p) {
    return p->limits->rate > 0 ? p->limits->rate : 1e12;
}

static void complained(hf_pace *p, int64_t started, int64_t now) {
    hf_adaptive *a = &p->adaptive;
    if (started <= a->cut_at) {
        return;
    }
    double cut = a->climb > 0 ? CUT : FIRST_CUT;
    a->climb = most(least(CLIMB, CLIMB_SLOW * a->rate) * a->rate, 1e-6);
    a->rate = most(a->rate * cut, least(MINIMUM_RATE, maximum(p)));
    a->cut_at = a->raised_at = now;
    a->smooth = a->paused = 0;
}

static void answered(hf_pace *p, int64_t elapsed, bool limited, int64_t now) {
    hf_adaptive *a = &p->adaptive;
    double latency = (double)elapsed / SECOND;
    double step = latency < a->best ? FALL : RISE;
    a->best = a->best > 0 ? a->best + step * (latency - a->best) : latency;
    a->smooth = a->smooth > 0 ? a->smooth + SMOOTH * (latency - a->smooth) : latency;
    if (a->smooth > SLOW * a->best + SLACK) {
        complained(p, now - elapsed, now);
        return;
    }
    double since = a->raised_at == NEVER_BEFORE
                       ? MAX_STEP
                       : least((double)(now - a->raised_at) / SECOND, MAX_STEP);
    a->raised_at = now;
    if (limited && since > 0) {
        double gain = a->climb > 0 ? a->climb : GROWTH * a->rate;
        a->rate = least(a->rate + gain * since, maximum(p));
    }
}

static void paused(hf_adaptive *a, int64_t wait) {
    a->paused += (double)wait / SECOND;
    if (a->climb > 0 && a->paused > 0) {
        a->climb = least(a->climb, (1 - CUT) * a->rate / (PATIENCE * a->paused));
    }
}

/* --- what an end says about the host -----------------------------------------------
 */

enum { MARK_NONE, MARK_HEAL, MARK_HURT };

/* Any status line heals, a 500 too: the breaker is about hosts that are not there. */
static int mark_of(const hf_pace_end *e) {
    switch (e->type) {
    case HF_T_NONE:
    case HF_T_HEADERS_TOO_LARGE:
    case HF_T_INCOMPLETE:
    case HF_T_BAD_ENCODING:
    case HF_T_REDIRECT_LOOP:
    case HF_T_TOO_MANY_REDIRECTS:
    case HF_T_BAD_REDIRECT:
        return MARK_HEAL;
    default:
        return e->origin == HF_O_SITE ? MARK_HURT : MARK_NONE;
    }
}

static bool is_timeout(int type) {
    switch (type) {
    case HF_T_DNS_TIMEOUT:
    case HF_T_CONNECT_TIMEOUT:
    case HF_T_PROXY_TIMEOUT:
    case HF_T_TLS_TIMEOUT:
    case HF_T_FIRST_BYTE_TIMEOUT:
    case HF_T_IDLE_TIMEOUT:
    case HF_T_TIMEOUT:
    case HF_T_HARD_TIMEOUT:
        return true;
    default:
        return false;
    }
}

static bool is_gate(const hf_pace_end *e) {
    return e->type == HF_T_NONE && (e->status == 429 || e->status == 503);
}

/* --- the pace ----------------------------------------------------------------------
 */

void hf_pace_init(hf_pace *p, const hf_host_limits *limits) {
    memset(p, 0, sizeof *p);
    p->limits = limits;
    p->last_ok = NEVER_BEFORE;
    p->adaptive.raised_at = p->adaptive.cut_at = NEVER_BEFORE;
    if (limits != NULL) {
        p->adaptive.rate = least(START_RATE, maximum(p));
    }
}

int hf_pace_ask(hf_pace *p, int64_t now, int64_t *until) {
    *until = INT64_MAX;
    if (p->open_until > now) {
        return HF_PACE_REFUSE;
    }
    if (p->gate_until > now) {
        *until = p->gate_until;
        return HF_PACE_WAIT;
    }
    if (p->probing && (p->open_until != 0 || p->gate_until != 0)) {
        return HF_PACE_WAIT;
    }
    if (p->next_at > now) {
        p->held = true;
        *until = p->next_at;
        return HF_PACE_WAIT;
    }
    return HF_PACE_GO;
}

static int64_t pause_of(const hf_pace *p, uint64_t random) {
    const hf_host_limits *l = p->limits;
    double pause = (double)l->delay;
    pause *= 1 + l->jitter * ((double)(random >> 11) / 9007199254740992.0);
    double rate = l->adaptive ? p->adaptive.rate : l->rate;
    if (rate > 0) {
        pause = most(pause, SECOND / rate);
    }
    return (int64_t)most(pause, (double)p->host_delay);
}

hf_grant hf_pace_start(hf_pace *p, bool first_attempt, uint64_t random, int64_t now) {
    bool closed = p->open_until != 0 || p->gate_until != 0;
    hf_grant grant = {.probe = closed,
                      .limited = p->held,
                      .first = first_attempt,
                      .before = p->next_at};
    p->held = false;
    p->requests += first_attempt;
    p->probing = closed;
    if (p->limits != NULL) {
        int64_t pause = pause_of(p, random);
        p->next_at = pause > 0 ? now + pause : 0;
    }
    return grant;
}

void hf_pace_take_back(hf_pace *p, hf_grant grant) {
    p->probing &= !grant.probe;
    p->held |= grant.limited;
    p->requests -= grant.first;
    p->next_at = grant.before;
}

static void hurt(hf_pace *p, hf_grant grant, int64_t now) {
    p->streak++;
    if (p->limits == NULL || p->limits->breaker_failures == 0) {
        return;
    }
    bool half_open = grant.probe && p->open_until != 0;
    if (half_open || (p->streak >= p->limits->breaker_failures && p->open_until == 0)) {
        p->open_until = now + p->limits->breaker_open;
        p->opened++;
    }
}

static void end_probe(hf_pace *p, int mark, const hf_pace_end *e, int64_t now) {
    p->probing = false;
    if (mark == MARK_HEAL) {
        /* A refusal closes the gate anew; that order comes from policy. So does a late
         * refusal that asked for more while the probe was out: that holds. */
        if (e->status != 429 && e->status != 503 && p->gate_until <= now) {
            p->gate_until = 0;
        }
    } else if (p->gate_until != 0 && p->gate_until < now + PROBE_AGAIN) {
        p->gate_until = now + PROBE_AGAIN;
    }
}

void hf_pace_finish(hf_pace *p, hf_grant grant, const hf_pace_end *e, int64_t now) {
    int64_t started = now - e->elapsed;
    int mark = mark_of(e);
    /* Requests of before the last answer say nothing about now. */
    bool outdated = started < p->last_ok;
    if (mark == MARK_HEAL) {
        p->last_ok = now;
        p->streak = 0;
        if (grant.probe) {
            p->open_until = 0;
        }
    } else if (mark == MARK_HURT && (!outdated || grant.probe)) {
        hurt(p, grant, now);
    }
    if (grant.probe) {
        end_probe(p, mark, e, now);
    }
    if (p->limits == NULL || !p->limits->adaptive) {
        return;
    }
    bool refused = is_gate(e);
    /* Silence through a proxy may be the proxy's; a host that is too slow shows in the
     * latency of what does get through. */
    bool silent = is_timeout(e->type) && mark == MARK_HURT && !e->via_proxy;
    if (refused && grant.probe) {
        return; /* still the old refusal: the gate waits longer, the rate is not new */
    }
    if (refused || silent) {
        complained(p, started, now);
    } else if (e->type == HF_T_NONE && e->status < 400) {
        answered(p, e->elapsed, grant.limited, now);
    }
}

void hf_pace_close_gate(hf_pace *p, int64_t until, int64_t now) {
    if (p->limits != NULL && p->limits->adaptive) {
        int64_t from = now > p->gate_until ? now : p->gate_until;
        paused(&p->adaptive, until > from ? until - from : 0);
    }
    if (until > p->gate_until) {
        p->gate_until = until;
    }
}

bool hf_pace_idle(const hf_pace *p, int64_t now) {
    return p->next_at <= now && p->gate_until <= now && p->open_until <= now;
}
