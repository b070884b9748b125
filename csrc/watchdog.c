#include "watchdog.h"

#include <signal.h>
#include <string.h>

#include "clock.h"
#include "engine.h"

#define TICK 50000      /* us between two looks */
#define STALL 200000    /* us inside one call that count as a stall */
#define PATIENCE 500000 /* us past the first hard limit until sockets are shut down */
#define LAST_CHANCE 150000 /* us for that to help */
#define AWAY 250000        /* us by which a look is late when nobody here ran */

/* What was seen of one loop so far. */
typedef struct watch {
    int64_t counted; /* since of the call that was counted as a stall */
    int64_t shut;    /* when its sockets were shut down, 0 = not */
} watch;

static void note_stall(hf_watchdog *w, hf_loop *l, int64_t since, int64_t lasted,
                       watch *seen) {
    if (seen->counted != since) {
        seen->counted = since;
        hf_stat_add(&w->stalls, 1);
    }
    if ((uint64_t)lasted > hf_stat_read(&w->stalled_us)) {
        atomic_store_explicit(&w->stalled_us, (uint64_t)lasted, HF_RELAXED);
        atomic_store_explicit(&w->stalled_call,
                              atomic_load_explicit(&l->heart.call, HF_RELAXED),
                              HF_RELAXED);
    }
}

/* The shard is ours: the transfers of the old loop get their records from here. */
static void report_all(hf_shard *s, int64_t now) {
    hf_request *r;
    bool stopped = now >= hf_inbox_stop_at(&s->inbox);
    while ((r = s->running.first) != NULL) {
        hf_shard_lose(s, r, stopped, now);
    }
    hf_shard_publish(s);
}

static void give_up(hf_watchdog *w, int32_t i, int64_t now) {
    hf_engine *e = w->engine;
    hf_loop *old = e->loops[i];
    if (!hf_heart_take(&old->heart)) {
        return; /* it came back at the last moment */
    }
    report_all(&e->shards[i], now);
    hf_watchdog_leave(w, old);
    hf_stat_add(&w->leaked, 1);
    hf_loop *fresh = NULL;
    hf_errbuf none = {NULL, 0};
    e->loops[i] = NULL;
    if (hf_loop_new(&e->shards[i], &fresh, none) != 0) {
        return; /* tried again at the next tick */
    }
    if (hf_loop_start(fresh, none) != 0) {
        hf_loop_free(fresh);
        return;
    }
    e->loops[i] = fresh;
}

/* A shard whose new loop could not be made gets another try. */
static void revive(hf_watchdog *w, int32_t i) {
    hf_errbuf none = {NULL, 0};
    hf_loop *fresh = NULL;
    if (hf_loop_new(&w->engine->shards[i], &fresh, none) == 0) {
        if (hf_loop_start(fresh, none) == 0) {
            w->engine->loops[i] = fresh;
        } else {
            hf_loop_free(fresh);
        }
    }
}

/* When a loop that is inside a call since then ought to be out of it. Where nothing
 * runs there is no limit; but a backlog may wait, which has none either. */
static int64_t due_out(hf_loop *l, int64_t since) {
    int64_t hard = atomic_load_explicit(&l->earliest_hard, HF_RELAXED);
    int64_t stop = hf_inbox_stop_at(&l->shard->inbox);
    if (hard == HF_NEVER) {
        hard = since + l->settings->c.hard_timeout;
    }
    return stop < hard ? stop : hard;
}

static void look_at(hf_watchdog *w, int32_t i, watch *seen) {
    hf_loop *l = w->engine->loops[i];
    if (l == NULL) {
        revive(w, i);
        return;
    }
    /* The state first: since is then that of this call, or of a later one. */
    bool inside = hf_load(&l->heart.state, HF_ACQUIRE) == HF_HEART_IN;
    int64_t since = atomic_load_explicit(&l->heart.since, HF_RELAXED);
    int64_t now = hf_now();
    if (!inside || now - since < STALL) {
        seen->shut = 0;
        return;
    }
    note_stall(w, l, since, now - since, seen);
    if (now < due_out(l, since) + PATIENCE) {
        return;
    }
    if (seen->shut == 0) {
        seen->shut = now;
        hf_poller_shutdown_all(&l->poller);
    } else if (now - seen->shut >= LAST_CHANCE) {
        seen->shut = 0;
        give_up(w, i, now);
    }
}

static void *run(void *arg) {
    hf_watchdog *w = arg;
    int32_t n = w->engine->shared.n_shards;
    watch seen[256];
    memset(seen, 0, sizeof seen);
    int64_t last = hf_now();
    while (hf_load(&w->quit, HF_ACQUIRE) == 0) {
        int64_t now = hf_now();
        /* After a stop of the process a loop looks stuck that only did not run either:
         * it has until the next look. */
        bool away = now - last > TICK + AWAY;
        last = now;
        for (int32_t i = 0; i < n && !away; i++) {
            look_at(w, i, &seen[i]);
        }
        hf_wake_wait(&w->wake, TICK);
    }
    return NULL;
}

int hf_watchdog_start(hf_watchdog *w, hf_engine *e, hf_errbuf err) {
    w->engine = e;
    int rc = hf_wake_init(&w->wake, err);
    if (rc != 0) {
        return rc;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        hf_wake_free(&w->wake);
        return hf_fail(err, HF_ESYS, "pthread_create failed with code %d", rc);
    }
    w->started = true;
    return 0;
}

void hf_watchdog_stop(hf_watchdog *w) {
    if (!w->started) {
        return;
    }
    /* Pairs with the load in run. */
    hf_store(&w->quit, 1, HF_RELEASE);
    hf_wake_kick(&w->wake);
    pthread_join(w->thread, NULL);
    hf_wake_free(&w->wake);
    w->started = false;
}

void hf_watchdog_leave(hf_watchdog *w, hf_loop *l) {
    l->next = w->left_behind;
    w->left_behind = l;
}

bool hf_watchdog_reap(hf_watchdog *w) {
    hf_loop **at = &w->left_behind;
    while (*at != NULL) {
        hf_loop *l = *at;
        if (hf_load(&l->ended, HF_ACQUIRE) == 0) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        hf_loop_free(l);
    }
    return w->left_behind == NULL;
}

void hf_watchdog_stats(const hf_watchdog *w, hf_stats *out) {
    const char *call = atomic_load_explicit(&w->stalled_call, HF_RELAXED);
    out->stalls = hf_stat_read(&w->stalls);
    out->loops_leaked = hf_stat_read(&w->leaked);
    out->stalled_us = hf_stat_read(&w->stalled_us);
    if (call != NULL) {
        strncpy(out->stalled_call, call, sizeof out->stalled_call - 1);
    }
}
