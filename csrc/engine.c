#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* --- making and ending -------------------------------------------------------------
 */

bool hf_engine_forked(const hf_engine *e) {
    return e->pid != getpid();
}

int hf_engine_open(hf_engine *e) {
    if (hf_engine_forked(e)) {
        return HF_EFORK;
    }
    /* Pairs with hf_engine_close, which interrupts those who looked before. */
    return hf_load(&e->closed, HF_ACQUIRE) != 0 ? HF_ECLOSED : 0;
}

int hf_engine_usable(const hf_engine *e, hf_errbuf err) {
    if (hf_engine_forked(e)) {
        return hf_fail(err, HF_EFORK,
                       "this engine belongs to the parent process; make one here");
    }
    if (hf_load(&((hf_engine *)(uintptr_t)e)->stopped, HF_ACQUIRE) != 0) {
        return hf_fail(err, HF_ECLOSED, "the engine was stopped");
    }
    return 0;
}

static int init_shared(hf_engine *e, hf_errbuf err) {
    hf_shared *sh = &e->shared;
    sh->settings = &e->settings;
    sh->output.fd = sh->policy.fd = sh->room.fd = -1;
    sh->paused = e->settings.c.paused != 0;
    hf_exits_init(&sh->exits);
    int rc = hf_wake_init(&sh->output, err);
    if (rc == 0) {
        rc = hf_wake_init(&sh->policy, err);
    }
    return rc == 0 ? hf_wake_init(&sh->room, err) : rc;
}

static int init_shards(hf_engine *e, hf_errbuf err) {
    hf_shared *sh = &e->shared;
    int32_t n = e->settings.c.loops;
    e->shards = calloc((size_t)n, sizeof *e->shards);
    e->loops = calloc((size_t)n, sizeof(hf_loop *));
    e->batches = calloc((size_t)n, sizeof *e->batches);
    if (e->shards == NULL || e->loops == NULL || e->batches == NULL) {
        return hf_fail(err, HF_ENOMEM, "no memory for %d loops", n);
    }
    sh->shards = e->shards;
    for (int32_t i = 0; i < n; i++) {
        int rc = hf_shard_init(&e->shards[i], sh, i, err);
        if (rc != 0) {
            return rc;
        }
        sh->n_shards = i + 1;
    }
    int rc = hf_output_init(&e->output, sh, &e->finished);
    return rc == 0 ? 0 : hf_fail(err, rc, "no memory for the output");
}

static int start_loops(hf_engine *e, hf_errbuf err) {
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        int rc = hf_loop_new(&e->shards[i], &e->loops[i], err);
        if (rc == 0) {
            rc = hf_loop_start(e->loops[i], err);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return hf_watchdog_start(&e->watchdog, e, err);
}

static void free_wakes(hf_shared *sh) {
    hf_wake *wakes[] = {&sh->output, &sh->policy, &sh->room};
    for (int i = 0; i < 3; i++) {
        if (wakes[i]->fd >= 0) {
            hf_wake_free(wakes[i]);
        }
    }
}

static void free_engine(hf_engine *e) {
    hf_output_free(&e->output);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_shard_free(&e->shards[i]);
    }
    free(e->shards);
    free(e->loops);
    free(e->batches);
    free(e->skip);
    free_wakes(&e->shared);
    if (e->shared.settings != NULL) {
        hf_exits_free(&e->shared.exits);
    }
    hf_settings_free(&e->settings);
    pthread_mutex_destroy(&e->submit);
    pthread_mutex_destroy(&e->closing);
    free(e);
}

static int build(hf_engine *e, const hf_config *cfg, hf_errbuf err) {
    int rc = hf_settings_init(&e->settings, cfg, err);
    if (rc == 0) {
        rc = init_shared(e, err);
    }
    if (rc == 0) {
        rc = init_shards(e, err);
    }
    return rc == 0 ? start_loops(e, err) : rc;
}

/* Waits for a loop to end. A loop stuck inside libcurl is left behind with all that it
 * may still touch; the process goes on without it. */
static bool join_loop(hf_loop *l, int64_t until) {
    while (l->started && hf_load(&l->ended, HF_ACQUIRE) == 0) {
        if (hf_now() >= until) {
            return false;
        }
        usleep(500);
    }
    hf_loop_free(l);
    return true;
}

/* Engines that were freed while libcurl did not let a loop go. They go when it has. */
static hf_engine *left_behind;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;

static void sweep(void) {
    if (pthread_mutex_trylock(&left_lock) != 0) {
        return; /* somebody sweeps, or did in the parent process as it was forked */
    }
    hf_engine **at = &left_behind;
    while (*at != NULL) {
        hf_engine *e = *at;
        if (!hf_engine_forked(e) && hf_watchdog_reap(&e->watchdog)) {
            *at = e->left;
            free_engine(e);
        } else {
            at = &e->left;
        }
    }
    pthread_mutex_unlock(&left_lock);
}

static void leave(hf_engine *e) {
    pthread_mutex_lock(&left_lock);
    e->left = left_behind;
    left_behind = e;
    pthread_mutex_unlock(&left_lock);
}

static void end_loops(hf_engine *e) {
    int64_t until = hf_now() + 2000000;
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        if (e->loops[i] != NULL) {
            hf_loop_quit(e->loops[i]);
        }
    }
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        if (e->loops[i] != NULL && !join_loop(e->loops[i], until)) {
            hf_watchdog_leave(&e->watchdog, e->loops[i]);
        }
        e->loops[i] = NULL;
    }
}

void hf_engine_close(hf_engine *e) {
    if (hf_engine_forked(e)) {
        return;
    }
    pthread_mutex_lock(&e->closing);
    if (hf_xchg(&e->closed, 1, HF_ACQ_REL) == 0) {
        if (e->watchdog.started) { /* else it is not all there */
            hf_engine_stop(e, 0);
            hf_engine_interrupt(e);
        }
        hf_watchdog_stop(&e->watchdog);
        if (e->loops != NULL) {
            end_loops(e);
        }
    }
    pthread_mutex_unlock(&e->closing);
}

void hf_engine_free(hf_engine *e) {
    if (e == NULL || hf_engine_forked(e)) {
        return;
    }
    hf_engine_close(e);
    if (hf_watchdog_reap(&e->watchdog)) {
        free_engine(e);
    } else {
        leave(e);
    }
    sweep();
}

hf_engine *hf_engine_alloc(void) {
    hf_engine *e = calloc(1, sizeof *e);
    if (e != NULL) {
        e->pid = getpid();
        e->shared.output.fd = e->shared.policy.fd = e->shared.room.fd = -1;
        pthread_mutex_init(&e->submit, NULL);
        pthread_mutex_init(&e->closing, NULL);
    }
    return e;
}

int hf_engine_start(hf_engine *e, const hf_config *cfg, char *err, size_t errlen) {
    hf_errbuf eb = {err, errlen};
    sweep();
    return e != NULL ? build(e, cfg, eb)
                     : hf_fail(eb, HF_ENOMEM, "no memory for an engine");
}

hf_engine *hf_engine_new(const hf_config *cfg, char *err, size_t errlen) {
    hf_engine *e = hf_engine_alloc();
    if (hf_engine_start(e, cfg, err, errlen) != 0) {
        hf_engine_free(e);
        return NULL;
    }
    return e;
}

int hf_engine_resume(hf_engine *e) {
    if (hf_engine_forked(e)) {
        return HF_EFORK; /* the eventfds are the parent's as well */
    }
    hf_store(&e->shared.paused, 0, HF_RELEASE);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_wake_kick(&e->shards[i].wake);
    }
    return 0;
}

/* --- output ------------------------------------------------------------------------
 */

int64_t hf_engine_drain(hf_engine *e, int fd, int64_t timeout, char *err,
                        size_t errlen) {
    int rc = hf_engine_open(e);
    return rc != 0 ? rc
                   : hf_output_drain(&e->output, fd, timeout, (hf_errbuf){err, errlen});
}

int64_t hf_engine_read(hf_engine *e, uint8_t *buf, size_t cap, int64_t timeout) {
    int rc = hf_engine_open(e);
    return rc != 0 ? rc : hf_output_read(&e->output, buf, cap, timeout);
}

int64_t hf_engine_view(hf_engine *e, const uint8_t **data, int64_t timeout) {
    int rc = hf_engine_open(e);
    return rc != 0 ? rc : hf_output_view(&e->output, data, timeout);
}

int hf_engine_output_fd(hf_engine *e) {
    return e->shared.output.fd;
}

int hf_engine_output_arm(hf_engine *e) {
    int rc = hf_engine_open(e);
    return rc != 0 ? rc : hf_output_arm(&e->output);
}

/* --- control -----------------------------------------------------------------------
 */

bool hf_engine_take_interrupt(hf_atomic_u32 *flag) {
    return hf_load(flag, HF_ACQUIRE) != 0 && hf_xchg(flag, 0, HF_ACQ_REL) != 0;
}

int hf_engine_cancel(hf_engine *e, uint64_t seq) {
    int rc = hf_engine_forked(e) ? HF_EFORK : 0;
    for (int32_t i = 0; rc == 0 && i < e->shared.n_shards; i++) {
        rc = hf_shard_post_cancel(&e->shards[i], seq);
    }
    return rc;
}

int hf_engine_stop(hf_engine *e, int64_t drain) {
    if (hf_engine_forked(e)) {
        return HF_EFORK;
    }
    /* A submission under way ends first, so that none comes behind the stop. */
    pthread_mutex_lock(&e->submit);
    hf_store(&e->stopped, 1, HF_RELEASE);
    pthread_mutex_unlock(&e->submit);
    hf_engine_resume(e);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_shard_post_stop(&e->shards[i], hf_now() + (drain > 0 ? drain : 0));
    }
    hf_wake_kick(&e->shared.room);
    return hf_engine_finish(e);
}

void hf_engine_interrupt(hf_engine *e) {
    if (hf_engine_forked(e)) {
        return;
    }
    /* Pairs with take_interrupt here and in output.c. */
    hf_store(&e->output.interrupted, 1, HF_RELEASE);
    hf_store(&e->policy_interrupted, 1, HF_RELEASE);
    hf_store(&e->room_interrupted, 1, HF_RELEASE);
    hf_wake_kick(&e->shared.output);
    hf_wake_kick(&e->shared.policy);
    hf_wake_kick(&e->shared.room);
}

/* --- counters ----------------------------------------------------------------------
 */

static void add_counts(const hf_shard *s, hf_stats *o) {
    const hf_counts *c = &s->counts;
#define ADD(to, from) o->to += hf_stat_read(&c->from)
    ADD(records, records);
    ADD(dropped, dropped);
    ADD(started, started);
    ADD(retries, retries);
    ADD(redirects, redirects);
    ADD(queued_now, queued);
    ADD(in_flight_now, in_flight);
    ADD(parked_now, parked);
    ADD(policy_now, policy);
    ADD(bytes_wire, bytes_wire);
    ADD(bytes_body, bytes_body);
    ADD(ring_full, ring_full);
    ADD(epoll_waits, epoll_waits);
    ADD(epoll_ctls, epoll_ctls);
    ADD(timer_sets, timer_sets);
    ADD(socket_actions, socket_actions);
    ADD(connects, connects);
    ADD(shortages, shortages);
    ADD(breakers, breakers);
    ADD(deadlines_fired, deadlines_fired);
    for (int i = 0; i < 6; i++) {
        ADD(by_class[i], by_class[i]);
    }
    for (int i = 0; i < 48; i++) {
        ADD(by_type[i], by_type[i]);
    }
    for (int i = 0; i < 128; i++) {
        ADD(overrun[i], overrun[i]);
    }
#undef ADD
    uint64_t max = hf_stat_read(&c->overrun_max);
    o->overrun_max = max > o->overrun_max ? max : o->overrun_max;
    o->bytes_out += hf_stat_read(&s->ring.bytes_in);
    o->bytes_drained += hf_stat_read(&s->ring.bytes_out);
    o->ring_used_now += hf_ring_used(&s->ring);
    o->ring_capacity += s->ring.capacity;
}

int hf_engine_stats(hf_engine *e, hf_stats *o) {
    memset(o, 0, sizeof *o);
    int rc = hf_engine_open(e);
    if (rc != 0) {
        return rc;
    }
    o->inputs = hf_stat_read(&e->inputs);
    o->skipped = hf_stat_read(&e->skipped);
    o->accepted = hf_stat_read(&e->accepted);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        add_counts(&e->shards[i], o);
    }
    o->wakeups = hf_stat_read(&e->shared.output.wakeups);
    o->lost_wakeups = hf_stat_read(&e->shared.output.lost);
    hf_watchdog_stats(&e->watchdog, o);
    return 0;
}
