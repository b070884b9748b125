#include "exits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"

#define PINS 4096          /* sessions remembered, at most */
#define UNMEASURED 1000000 /* us, taken for an exit without a latency (tower-load) */
#define DECAY 10000000.0   /* us, time constant of the latency's fall */

struct hf_exit {
    hf_exit_row row;
    int64_t until; /* us, monotonic */
    int32_t in_flight;
    bool probing;
    uint64_t started;
    double latency; /* us, peak EWMA; 0 = not measured */
    int64_t measured_at;
};

/* A session and its exit. One per bucket: the newer wins, which bounds the table. */
struct hf_pin {
    uint64_t hash;
    int32_t number;
    int64_t until;
};

void hf_exits_init(hf_exits *x) {
    memset(x, 0, sizeof *x);
    pthread_mutex_init(&x->lock, NULL);
    x->random = (uint64_t)(uintptr_t)x | 1;
}

void hf_exits_free(hf_exits *x) {
    for (int32_t i = 0; i < x->n; i++) {
        free(x->rows[i]);
    }
    for (uint32_t i = 0; i < x->n_pins; i++) {
        free(x->pins[i]);
    }
    free(x->rows);
    free(x->pins);
    pthread_mutex_destroy(&x->lock);
}

static uint64_t next_random(hf_exits *x) {
    x->random ^= x->random << 13;
    x->random ^= x->random >> 7;
    x->random ^= x->random << 17;
    return x->random;
}

static hf_exit *find(hf_exits *x, int32_t number) {
    for (int32_t i = 0; i < x->n; i++) {
        if (x->rows[i]->row.number == number) {
            return x->rows[i];
        }
    }
    return NULL;
}

static hf_exit *add(hf_exits *x) {
    if (x->n == x->cap) {
        int32_t cap = x->cap == 0 ? 16 : x->cap * 2;
        hf_exit **rows = realloc(x->rows, (size_t)cap * sizeof *rows);
        if (rows == NULL) {
            return NULL;
        }
        x->rows = rows;
        x->cap = cap;
    }
    hf_exit *e = calloc(1, sizeof *e);
    if (e != NULL) {
        x->rows[x->n++] = e;
    }
    return e;
}

static void drop_gone(hf_exits *x) {
    int32_t kept = 0;
    for (int32_t i = 0; i < x->n; i++) {
        hf_exit *e = x->rows[i];
        if (e->row.state == HF_EXIT_GONE && e->in_flight == 0) {
            free(e);
        } else {
            x->rows[kept++] = e;
        }
    }
    x->n = kept;
}

int hf_exits_update(hf_exits *x, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky, int64_t now) {
    int rc = 0;
    pthread_mutex_lock(&x->lock);
    x->active = true;
    x->wait_limit = wait_limit;
    x->sticky = sticky;
    for (int i = 0; i < n && rc == 0; i++) {
        hf_exit *e = find(x, rows[i].number);
        e = e != NULL ? e : add(x);
        if (e == NULL) {
            rc = HF_ENOMEM;
            break;
        }
        e->row = rows[i];
        e->row.url[sizeof e->row.url - 1] = '\0';
        e->until = rows[i].state == HF_EXIT_BENCHED ? now + rows[i].until : 0;
        e->probing = false;
    }
    drop_gone(x);
    pthread_mutex_unlock(&x->lock);
    return rc;
}

bool hf_exits_active(hf_exits *x) {
    pthread_mutex_lock(&x->lock);
    bool active = x->active;
    pthread_mutex_unlock(&x->lock);
    return active;
}

/* --- picking -----------------------------------------------------------------------
 */

static bool has_room(const hf_exit *e) {
    return e->row.exclusive == 0 || e->in_flight < e->row.exclusive;
}

static bool is_live(const hf_exit *e) {
    return e->row.state == HF_EXIT_UP && has_room(e);
}

static double cost(const hf_exit *e) {
    double latency = e->latency > 0 ? e->latency : UNMEASURED;
    double weight = e->row.weight > 0 ? e->row.weight : 1;
    return latency * (e->in_flight + 1) / weight;
}

static hf_exit *due_probe(hf_exits *x, int64_t now, int64_t *until) {
    for (int32_t i = 0; i < x->n; i++) {
        hf_exit *e = x->rows[i];
        if (e->row.state != HF_EXIT_BENCHED || e->probing || !has_room(e)) {
            continue;
        }
        if (e->until <= now) {
            return e;
        }
        *until = e->until < *until ? e->until : *until;
    }
    return NULL;
}

static int32_t lowest_tier(const hf_exits *x) {
    int32_t tier = INT32_MAX;
    for (int32_t i = 0; i < x->n; i++) {
        const hf_exit *e = x->rows[i];
        tier = is_live(e) && e->row.tier < tier ? e->row.tier : tier;
    }
    return tier;
}

/* The cheaper of two random live exits of the tier. Start points are random and the
 * first that fits is taken, which is fair enough and never fails while one is live. */
static hf_exit *draw(hf_exits *x, int32_t tier) {
    hf_exit *best = NULL;
    for (int k = 0; k < 2; k++) {
        int32_t at = (int32_t)(next_random(x) % (uint64_t)x->n);
        for (int32_t i = 0; i < x->n; i++) {
            hf_exit *e = x->rows[(at + i) % x->n];
            if (is_live(e) && e->row.tier == tier) {
                best = best == NULL || cost(e) < cost(best) ? e : best;
                break;
            }
        }
    }
    return best;
}

static uint64_t hash_of(const uint8_t *s, size_t n) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ s[i]) * 1099511628211u;
    }
    return h;
}

static hf_exit *pinned(hf_exits *x, uint64_t hash, int64_t now) {
    hf_pin *p = x->n_pins > 0 ? x->pins[hash % x->n_pins] : NULL;
    if (p == NULL || p->hash != hash || p->until <= now) {
        return NULL;
    }
    hf_exit *e = find(x, p->number);
    return e != NULL && is_live(e) ? e : NULL;
}

static void pin(hf_exits *x, uint64_t hash, int32_t number, int64_t now) {
    if (x->pins == NULL) {
        x->pins = calloc(PINS, sizeof(hf_pin *));
        x->n_pins = x->pins != NULL ? PINS : 0;
    }
    hf_pin **at = x->n_pins > 0 ? &x->pins[hash % x->n_pins] : NULL;
    if (at != NULL && *at == NULL) {
        *at = calloc(1, sizeof **at);
    }
    if (at != NULL && *at != NULL) {
        **at = (hf_pin){hash, number, now + x->sticky};
    }
}

static hf_exit *choose(hf_exits *x, uint64_t hash, int64_t now, hf_pick *out) {
    hf_exit *e = hash != 0 ? pinned(x, hash, now) : NULL;
    if (e != NULL) {
        return e;
    }
    /* A session is no guinea pig: probes are for the others. */
    e = hash == 0 ? due_probe(x, now, &out->until) : NULL;
    if (e != NULL) {
        e->probing = out->probe = true;
        return e;
    }
    int32_t tier = lowest_tier(x);
    if (tier != INT32_MAX) {
        return draw(x, tier);
    }
    e = due_probe(x, now, &out->until);
    if (e != NULL) {
        e->probing = out->probe = true;
    }
    return e;
}

int hf_exits_pick(hf_exits *x, const uint8_t *session, size_t n, int64_t now,
                  hf_pick *out) {
    *out = (hf_pick){.number = -1, .until = INT64_MAX};
    pthread_mutex_lock(&x->lock);
    uint64_t hash = n > 0 && x->sticky > 0 ? hash_of(session, n) : 0;
    hf_exit *e = x->n > 0 ? choose(x, hash, now, out) : NULL;
    if (e != NULL) {
        e->in_flight++;
        e->started++;
        out->number = e->row.number;
        memcpy(out->url, e->row.url, sizeof out->url);
        if (hash != 0) {
            pin(x, hash, e->row.number, now);
        }
    }
    pthread_mutex_unlock(&x->lock);
    return e != NULL ? 0 : HF_EAGAIN;
}

void hf_exits_start(hf_exits *x, int32_t number) {
    pthread_mutex_lock(&x->lock);
    hf_exit *e = find(x, number);
    if (e != NULL) {
        e->in_flight++;
        e->started++;
    }
    pthread_mutex_unlock(&x->lock);
}

/* Up at once, down slowly: a slow answer counts until time has worn it off. */
static void measure(hf_exit *e, double elapsed, int64_t now) {
    double age = (double)(now - e->measured_at);
    double keep = exp(-age / DECAY);
    if (e->latency <= 0 || elapsed > e->latency) {
        e->latency = elapsed;
    } else {
        e->latency = e->latency * keep + elapsed * (1 - keep);
    }
    e->measured_at = now;
}

void hf_exits_end(hf_exits *x, int32_t number, bool ok, int64_t elapsed, int64_t now) {
    pthread_mutex_lock(&x->lock);
    hf_exit *e = find(x, number);
    if (e != NULL) {
        e->in_flight -= e->in_flight > 0;
        if (ok) {
            measure(e, (double)elapsed, now);
        }
        if (e->probing && e->row.state == HF_EXIT_BENCHED) {
            /* Policy hears of the result and says what the exit is now; until then
             * nobody else tries it, for a second at the most. */
            e->probing = false;
            e->until = now + 1000000;
        }
    }
    pthread_mutex_unlock(&x->lock);
}

int hf_exits_stats(hf_exits *x, hf_exit_stats *out, int max) {
    pthread_mutex_lock(&x->lock);
    int n = 0;
    for (int32_t i = 0; i < x->n && n < max; i++) {
        const hf_exit *e = x->rows[i];
        out[n++] = (hf_exit_stats){.number = e->row.number,
                                   .in_flight = e->in_flight,
                                   .started = e->started,
                                   .latency = (int64_t)e->latency};
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}
