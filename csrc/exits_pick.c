/* Which exit serves: the second half of exits.h. */
#include <math.h>
#include <string.h>

#include "err.h"
#include "exits_parts.h"

#define UNMEASURED 1000000.0 /* us, taken for an exit without a latency */
#define LEAST 1000.0         /* us; so that weights and loads count at any speed */

/* A wish with its hashes, while the lock is held. */
typedef struct want {
    uint64_t session; /* 0 = none */
    uint64_t host;
    int64_t now;
} want;

static want want_of(const hf_exits *x, const hf_wish *w, int64_t now) {
    want out = {.now = now};
    if (w->session_len > 0 && x->sticky > 0) {
        out.session = hf_memo_hash(HF_MEMO_SEED, w->session, w->session_len) | 1;
    }
    if (x->refusals.entries != NULL) {
        out.host = hf_memo_hash(HF_MEMO_SEED, w->host, w->host_len);
    }
    return out;
}

static uint64_t pair_key(uint64_t host, int32_t number) {
    return hf_memo_hash(host, &number, sizeof number);
}

uint64_t hf_exits_pair_key(const char *host, size_t host_len, int32_t number) {
    return pair_key(hf_memo_hash(HF_MEMO_SEED, host, host_len), number);
}

/* How much is left of what was known when it was last measured. */
static double fade_of(const hf_exit *e, int64_t now) {
    return exp(-(double)(now - e->measured_at) / HF_EXIT_DECAY);
}

/* Failures count as well until then: those that come at once would soon be many before
 * policy can bench the exit. */
static bool proves_itself(const hf_exit *e, int64_t now) {
    return e->in_flight + e->streak * fade_of(e, now) < e->row.unproven;
}

static bool is_leased_away(const hf_exit *e, const want *w) {
    if (e->row.exclusive == HF_LEASE_REQUEST) {
        return e->in_flight > 0;
    }
    return e->row.exclusive == HF_LEASE_SESSION && e->owner_until > w->now &&
           e->owner != w->session;
}

static bool is_unproven(const hf_exit *e) {
    return e->row.unproven > 0 && e->answered == 0;
}

static bool has_room(const hf_exit *e, const want *w) {
    if (is_leased_away(e, w)) {
        return false;
    }
    if (e->row.exclusive == HF_LEASE_SESSION && e->owner_until > w->now) {
        return true;
    }
    return !is_unproven(e) || proves_itself(e, w->now);
}

static bool avoided(const hf_exits *x, const hf_exit *e, const want *w) {
    return x->refusals.entries != NULL &&
           hf_memo_get(&x->refusals, pair_key(w->host, e->row.number), w->now) >= 0;
}

static double cost(const hf_exits *x, const hf_exit *e, int64_t now) {
    /* A new one is taken for one like the others, or it would never be tried. */
    double latency = x->typical > 0 ? x->typical : UNMEASURED;
    double streak = e->streak;
    if (e->latency > 0) {
        /* Without news old peaks fade, or the exit would never be tried again. */
        double fade = fade_of(e, now);
        latency = e->latency * fade > LEAST ? e->latency * fade : LEAST;
        streak *= fade;
    }
    double weight = e->row.weight > 0 ? e->row.weight : 1;
    /* One that refuses at once must not look like the quickest of all. */
    return latency * (e->in_flight + 1.0) * (streak + 1.0) / weight;
}

static hf_exit *due_probe(const hf_exits *x, int32_t tier, const want *w) {
    for (int32_t i = 0; i < x->n && x->probe_at <= w->now; i++) {
        hf_exit *e = x->rows[i];
        if (e->row.state == HF_EXIT_BENCHED && e->row.tier == tier && !e->probing &&
            e->until <= w->now && has_room(e, w)) {
            return e;
        }
    }
    return NULL;
}

static uint64_t next_random(hf_exits *x) {
    x->random ^= x->random << 13;
    x->random ^= x->random >> 7;
    x->random ^= x->random << 17;
    return x->random;
}

/* The cheaper of two random live exits of the tier. Start points are random and the
 * first that fits is taken, which is fair enough and never fails while one fits. */
static hf_exit *draw(hf_exits *x, const hf_exit_tier *t, const want *w, bool strict) {
    hf_exit *best = NULL;
    for (int k = 0; k < 2 && t->n > 0; k++) {
        int32_t at = (int32_t)(next_random(x) % (uint64_t)t->n);
        for (int32_t i = 0; i < t->n; i++) {
            hf_exit *e = x->shelf[t->at + (at + i) % t->n];
            if (e != best && has_room(e, w) && !(strict && avoided(x, e, w))) {
                bool better =
                    best == NULL || cost(x, e, w->now) < cost(x, best, w->now);
                best = better ? e : best;
                break;
            }
        }
    }
    return best;
}

/* The tier tried as number i: from the host's lowest up, then those below it. */
static const hf_exit_tier *tier_at(const hf_exits *x, int32_t first, int32_t i) {
    int32_t below = 0;
    while (below < x->n_tiers && x->tiers[below].tier < first) {
        below++;
    }
    int32_t up = x->n_tiers - below;
    return &x->tiers[i < up ? below + i : x->n_tiers - 1 - i];
}

/* Whether a live exit of the tier has only too many first requests in flight to take
 * one more: the answer is near, so that nobody need go to another tier. */
static bool is_proving(const hf_exits *x, const hf_exit_tier *t, const want *w,
                       bool strict) {
    for (int32_t i = 0; i < t->n; i++) {
        const hf_exit *e = x->shelf[t->at + i];
        if (is_unproven(e) && e->streak == 0 && e->in_flight > 0 &&
            !is_leased_away(e, w) && !(strict && avoided(x, e, w))) {
            return true;
        }
    }
    return false;
}

static hf_exit *from_tiers(hf_exits *x, const want *w, bool *probe) {
    int32_t first = x->refusals.entries != NULL
                        ? hf_memo_get(&x->refusals, pair_key(w->host, -1), w->now)
                        : 0;
    for (int strict = 1; strict >= 0; strict--) {
        for (int32_t i = 0; i < x->n_tiers; i++) {
            const hf_exit_tier *t = tier_at(x, first, i);
            /* A session is no guinea pig: probes are for the others. */
            hf_exit *e = w->session == 0 ? due_probe(x, t->tier, w) : NULL;
            *probe = e != NULL;
            e = e != NULL ? e : draw(x, t, w, strict != 0);
            if (e != NULL || is_proving(x, t, w, strict != 0)) {
                return e;
            }
        }
    }
    for (int32_t i = 0; w->session != 0 && i < x->n_tiers; i++) {
        hf_exit *e = due_probe(x, x->tiers[i].tier, w);
        *probe = e != NULL;
        if (e != NULL) {
            return e;
        }
    }
    return NULL;
}

static hf_exit *pinned(const hf_exits *x, const want *w) {
    if (w->session == 0) {
        return NULL;
    }
    int32_t number = hf_memo_get(&x->pins, w->session, w->now);
    hf_exit *e = number >= 0 ? hf_exits_find(x, number) : NULL;
    return e != NULL && e->row.state == HF_EXIT_UP ? e : NULL;
}

static void pin(hf_exits *x, hf_exit *e, const want *w) {
    if (w->session == 0) {
        return;
    }
    int64_t until = w->now + x->sticky;
    hf_exit *before = pinned(x, w);
    if (before != NULL && before->owner == w->session) {
        before->owner_until = 0;
    }
    hf_memo_put(&x->pins, w->session, e->row.number, until, w->now);
    if (e->row.exclusive == HF_LEASE_SESSION) {
        e->owner = w->session;
        e->owner_until = until;
    }
}

bool hf_exits_pin(hf_exits *x, hf_exit *e, const hf_wish *wish, int64_t now) {
    want w = want_of(x, wish, now);
    if (is_leased_away(e, &w)) {
        return false;
    }
    if (pinned(x, &w) != e) {
        pin(x, e, &w);
    }
    return true;
}

static hf_exit *choose(hf_exits *x, const want *w, hf_pick *out) {
    hf_exit *e = pinned(x, w);
    if (e != NULL) {
        out->leased = e->row.exclusive == HF_LEASE_REQUEST && e->in_flight > 0;
        return out->leased ? NULL : e;
    }
    e = from_tiers(x, w, &out->probe);
    if (e != NULL) {
        pin(x, e, w);
    }
    return e;
}

int hf_exits_pick(hf_exits *x, const hf_wish *wish, int64_t now, hf_pick *out) {
    *out = (hf_pick){.number = -1, .until = INT64_MAX};
    pthread_mutex_lock(&x->lock);
    want w = want_of(x, wish, now);
    hf_exit *e = choose(x, &w, out);
    if (e != NULL) {
        e->in_flight++;
        e->started++;
        out->number = e->row.number;
        memcpy(out->url, e->row.url, sizeof out->url);
        if (out->probe) {
            e->probing = true;
            hf_exits_plan_probe(x);
        }
    } else if (x->probe_at > now) {
        out->until = x->probe_at;
    }
    pthread_mutex_unlock(&x->lock);
    return e != NULL ? 0 : HF_EAGAIN;
}

void hf_exits_avoid(hf_exits *x, const char *host, int32_t number, int32_t tier,
                    int64_t until, int64_t now) {
    pthread_mutex_lock(&x->lock);
    uint64_t key = hf_exits_pair_key(host, strlen(host), number);
    hf_memo_put(&x->refusals, key, tier > 0 ? tier : 0, until, now);
    pthread_mutex_unlock(&x->lock);
}
