#include "exits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "exits_parts.h"

#define PROBE_AGAIN 1000000 /* us */
#define PAIR_TIME 60000000  /* us until a failure with a host is forgotten */

/* --- the table ---------------------------------------------------------------------
 */

void hf_exits_init(hf_exits *x) {
    memset(x, 0, sizeof *x);
    pthread_mutex_init(&x->lock, NULL);
    x->random = (uint64_t)(uintptr_t)x | 1;
    x->probe_at = INT64_MAX;
}

void hf_exits_free(hf_exits *x) {
    for (int32_t i = 0; i < x->n; i++) {
        free(x->rows[i]);
    }
    free(x->rows);
    free(x->shelf);
    free(x->tiers);
    hf_memo_free(&x->pins);
    hf_memo_free(&x->failures);
    hf_memo_free(&x->refusals);
    pthread_mutex_destroy(&x->lock);
}

/* The place of a number among the rows, or where it belongs. */
static int32_t place_of(const hf_exits *x, int32_t number) {
    int32_t low = 0;
    int32_t high = x->n;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (x->rows[mid]->row.number < number) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

hf_exit *hf_exits_find(const hf_exits *x, int32_t number) {
    int32_t at = place_of(x, number);
    return at < x->n && x->rows[at]->row.number == number ? x->rows[at] : NULL;
}

static int grow(hf_exits *x) {
    int32_t cap = x->cap == 0 ? 16 : x->cap * 2;
    size_t n = (size_t)cap;
    hf_exit **rows = realloc(x->rows, n * sizeof(hf_exit *));
    x->rows = rows != NULL ? rows : x->rows;
    hf_exit **shelf = realloc(x->shelf, n * sizeof(hf_exit *));
    x->shelf = shelf != NULL ? shelf : x->shelf;
    hf_exit_tier *tiers = realloc(x->tiers, n * sizeof *tiers);
    x->tiers = tiers != NULL ? tiers : x->tiers;
    if (rows == NULL || shelf == NULL || tiers == NULL) {
        return HF_ENOMEM;
    }
    x->cap = cap;
    return 0;
}

static hf_exit *find_or_add(hf_exits *x, int32_t number) {
    hf_exit *e = hf_exits_find(x, number);
    if (e != NULL || (x->n == x->cap && grow(x) != 0)) {
        return e;
    }
    e = calloc(1, sizeof *e);
    if (e != NULL) {
        int32_t at = place_of(x, number);
        memmove(x->rows + at + 1, x->rows + at, (size_t)(x->n - at) * sizeof e);
        e->row.number = number;
        e->last_ok = INT64_MIN;
        x->rows[at] = e;
        x->n++;
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

/* --- the shelf ---------------------------------------------------------------------
 */

static int by_tier(const void *a, const void *b) {
    const hf_exit *const *p = a;
    const hf_exit *const *q = b;
    return ((*p)->row.tier > (*q)->row.tier) - ((*p)->row.tier < (*q)->row.tier);
}

/* Cuts a sorted shelf, on which the benched lie too, into tiers of those that are up.
 */
static void cut_tiers(hf_exits *x, int32_t n) {
    int32_t kept = 0;
    x->n_tiers = 0;
    for (int32_t i = 0; i < n; i++) {
        hf_exit *e = x->shelf[i];
        hf_exit_tier *last = x->n_tiers > 0 ? &x->tiers[x->n_tiers - 1] : NULL;
        if (last == NULL || last->tier != e->row.tier) {
            last = &x->tiers[x->n_tiers++];
            *last = (hf_exit_tier){.tier = e->row.tier, .at = kept};
        }
        if (e->row.state == HF_EXIT_UP) {
            x->shelf[kept++] = e;
            last->n++;
        }
    }
}

static void fill_shelf(hf_exits *x) {
    int32_t n = 0;
    for (int32_t i = 0; i < x->n; i++) {
        if (x->rows[i]->row.state != HF_EXIT_GONE) {
            x->shelf[n++] = x->rows[i];
        }
    }
    if (n > 0) {
        qsort(x->shelf, (size_t)n, sizeof(hf_exit *), by_tier);
    }
    cut_tiers(x, n);
}

void hf_exits_plan_probe(hf_exits *x) {
    x->probe_at = INT64_MAX;
    for (int32_t i = 0; i < x->n; i++) {
        const hf_exit *e = x->rows[i];
        if (e->row.state == HF_EXIT_BENCHED && !e->probing && e->until < x->probe_at) {
            x->probe_at = e->until;
        }
    }
}

static void set_row(hf_exit *e, const hf_exit_row *row, int64_t now) {
    bool healed = row->state == HF_EXIT_UP && e->row.state == HF_EXIT_BENCHED;
    e->row = *row;
    e->row.url[sizeof e->row.url - 1] = '\0';
    e->until = row->state == HF_EXIT_BENCHED ? now + row->until : 0;
    e->probing = false;
    e->streak = healed ? 0 : e->streak;
}

int hf_exits_update(hf_exits *x, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky, int64_t now) {
    int rc = 0;
    pthread_mutex_lock(&x->lock);
    x->active = true;
    x->wait_limit = wait_limit;
    x->sticky = sticky;
    for (int i = 0; i < n && rc == 0; i++) {
        hf_exit *e = find_or_add(x, rows[i].number);
        if (e != NULL) {
            set_row(e, &rows[i], now);
        } else {
            rc = HF_ENOMEM;
        }
    }
    drop_gone(x);
    fill_shelf(x);
    hf_exits_plan_probe(x);
    pthread_mutex_unlock(&x->lock);
    return rc;
}

bool hf_exits_active(hf_exits *x) {
    pthread_mutex_lock(&x->lock);
    bool active = x->active;
    pthread_mutex_unlock(&x->lock);
    return active;
}

/* --- the life of a request ---------------------------------------------------------
 */

bool hf_exits_start(hf_exits *x, int32_t number, const hf_wish *wish, int64_t now) {
    pthread_mutex_lock(&x->lock);
    hf_exit *e = hf_exits_find(x, number);
    bool gone = e == NULL || e->row.state == HF_EXIT_GONE;
    bool may = !gone && hf_exits_pin(x, e, wish, now);
    if (may) {
        e->in_flight++;
        e->started++;
    }
    pthread_mutex_unlock(&x->lock);
    return may;
}

/* Up at once, down slowly: a slow answer counts until time has worn it off. */
static void measure(hf_exit *e, double elapsed, int64_t now) {
    double keep = exp(-(double)(now - e->measured_at) / HF_EXIT_DECAY);
    if (e->latency <= 0 || elapsed > e->latency) {
        e->latency = elapsed;
    } else {
        e->latency = e->latency * keep + elapsed * (1 - keep);
    }
    e->measured_at = now;
}

static void learn(hf_exits *x, hf_exit *e, int news, double elapsed, int64_t now) {
    switch (news) {
    case HF_EXIT_ANSWERED:
        e->answered++;
        e->streak = 0;
        e->last_ok = now;
        measure(e, elapsed, now);
        x->typical += (elapsed - x->typical) * (x->typical > 0 ? 0.05 : 1);
        break;
    case HF_EXIT_FAILED:
        e->streak++;
        measure(e, fmax(elapsed, e->latency), now);
        break;
    case HF_EXIT_SUSPECT:
        measure(e, fmax(elapsed, e->latency), now);
        break;
    default:
        break;
    }
}

static void end(hf_exits *x, hf_exit *e, int news, int64_t elapsed, int64_t now) {
    e->in_flight -= e->in_flight > 0;
    learn(x, e, news, (double)elapsed, now);
    if (e->probing && e->row.state == HF_EXIT_BENCHED) {
        /* Policy hears of the result and says what the exit is now; until then nobody
         * else tries it, for a second at the most. */
        e->probing = false;
        e->until = now + PROBE_AGAIN;
        hf_exits_plan_probe(x);
    }
}

void hf_exits_end(hf_exits *x, int32_t number, int news, int64_t elapsed, int64_t now) {
    pthread_mutex_lock(&x->lock);
    hf_exit *e = hf_exits_find(x, number);
    if (e != NULL) {
        end(x, e, news, elapsed, now);
    }
    pthread_mutex_unlock(&x->lock);
}

bool hf_exits_rest(hf_exits *x, int32_t number, int64_t elapsed, int64_t now) {
    pthread_mutex_lock(&x->lock);
    hf_exit *e = hf_exits_find(x, number);
    bool taken = e != NULL && e->row.exclusive != HF_LEASE_NONE;
    if (e != NULL) {
        end(x, e, HF_EXIT_ANSWERED, elapsed, now);
        e->in_flight += taken;
    }
    pthread_mutex_unlock(&x->lock);
    return taken;
}

int32_t hf_exits_pair(hf_exits *x, int32_t number, const hf_wish *w, bool served,
                      int64_t now) {
    pthread_mutex_lock(&x->lock);
    int32_t count = 0;
    if (!served || x->failures.entries != NULL) {
        uint64_t key = hf_exits_pair_key(w->host, w->host_len, number);
        int32_t before = hf_memo_get(&x->failures, key, now);
        count = served ? 0 : (before > 0 ? before : 0) + 1;
        if (count > 0 || before > 0) {
            hf_memo_put(&x->failures, key, count, now + (served ? 0 : PAIR_TIME), now);
        }
    }
    pthread_mutex_unlock(&x->lock);
    return count;
}

int64_t hf_exits_quiet(hf_exits *x, int32_t number, int64_t now) {
    pthread_mutex_lock(&x->lock);
    const hf_exit *e = hf_exits_find(x, number);
    int64_t last = e != NULL ? e->last_ok : INT64_MIN;
    pthread_mutex_unlock(&x->lock);
    if (last == INT64_MIN) {
        return -1;
    }
    return now > last ? now - last : 0; /* another loop's clock may be ahead */
}

int hf_exits_stats(hf_exits *x, hf_exit_stats *out, int max) {
    pthread_mutex_lock(&x->lock);
    int n = 0;
    for (int32_t i = 0; i < x->n && n < max; i++) {
        const hf_exit *e = x->rows[i];
        out[n++] = (hf_exit_stats){.number = e->row.number,
                                   .in_flight = e->in_flight,
                                   .started = e->started,
                                   .answered = e->answered,
                                   .latency = (int64_t)e->latency};
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}
