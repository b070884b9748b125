#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* --- making and ending -------------------------------------------------------------
 */

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
    return hf_output_init(&e->output, sh, &e->finished);
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

static bool forked(const hf_engine *e) {
    return e->pid != getpid();
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
        if (!forked(e) && hf_watchdog_reap(&e->watchdog)) {
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

void hf_engine_free(hf_engine *e) {
    if (e == NULL || forked(e)) {
        return;
    }
    hf_watchdog_stop(&e->watchdog);
    if (e->loops != NULL) {
        end_loops(e);
    }
    if (hf_watchdog_reap(&e->watchdog)) {
        free_engine(e);
    } else {
        leave(e);
    }
    sweep();
}

hf_engine *hf_engine_new(const hf_config *cfg, char *err, size_t errlen) {
    hf_errbuf eb = {err, errlen};
    sweep();
    hf_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        hf_fail(eb, HF_ENOMEM, "no memory for an engine");
        return NULL;
    }
    e->pid = getpid();
    e->shared.output.fd = e->shared.policy.fd = e->shared.room.fd = -1;
    pthread_mutex_init(&e->submit, NULL);
    if (build(e, cfg, eb) != 0) {
        hf_engine_free(e);
        return NULL;
    }
    return e;
}

int hf_engine_resume(hf_engine *e) {
    if (forked(e)) {
        return HF_EFORK; /* the eventfds are the parent's as well */
    }
    hf_store(&e->shared.paused, 0, HF_RELEASE);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_wake_kick(&e->shards[i].wake);
    }
    return 0;
}

/* --- submission --------------------------------------------------------------------
 */

int hf_engine_skip(hf_engine *e, const uint8_t *bitmap, uint64_t nbits) {
    if (forked(e)) {
        return HF_EFORK;
    }
    uint8_t *copy = malloc((size_t)(nbits + 7) / 8 + 1);
    if (copy == NULL) {
        return HF_ENOMEM;
    }
    memcpy(copy, bitmap, (size_t)(nbits + 7) / 8);
    pthread_mutex_lock(&e->submit);
    free(e->skip);
    e->skip = copy;
    e->skip_bits = nbits;
    pthread_mutex_unlock(&e->submit);
    return 0;
}

static bool skipped(hf_engine *e) {
    uint64_t seq = e->next_seq;
    if (seq >= e->skip_bits || (e->skip[seq / 8] >> (seq % 8) & 1) == 0) {
        return false;
    }
    e->next_seq++;
    hf_stat_add(&e->inputs, 1);
    hf_stat_add(&e->skipped, 1);
    return true;
}

/* Room for one more? Only the feeder adds, so what is seen here can only get better. */
static bool has_room(hf_engine *e, uint64_t batch, uint64_t charge) {
    const hf_config *c = &e->settings.c;
    uint64_t held = hf_load(&e->shared.outstanding, HF_SEQ_CST) + batch;
    uint64_t bytes = hf_load(&e->shared.charged, HF_SEQ_CST) + charge;
    return held < (uint64_t)c->window_requests &&
           (held == 0 || bytes < (uint64_t)c->window_bytes);
}

typedef struct batch {
    uint64_t n;
    uint64_t charge;
    int64_t now;
} batch;

static void admit(hf_engine *e, hf_request *r, batch *b) {
    uint32_t shard =
        hf_request_invalid(r)
            ? (uint32_t)(e->next_seq % (uint64_t)e->shared.n_shards)
            : hf_shard_of(&e->shared, r->url.hostport, r->url.hostport_len);
    r->seq = e->next_seq++;
    r->accepted = b->now;
    hf_requests_append(&e->batches[shard], r);
    b->n++;
    b->charge += r->charge;
}

static void deliver(hf_engine *e, const batch *b) {
    if (b->n == 0) {
        return;
    }
    hf_stat_add(&e->inputs, b->n);
    hf_stat_add(&e->accepted, b->n);
    hf_add(&e->shared.charged, b->charge, HF_SEQ_CST);
    hf_add(&e->shared.outstanding, b->n, HF_SEQ_CST);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_shard_post(&e->shards[i], &e->batches[i]);
    }
}

static int usable(const hf_engine *e, hf_errbuf err) {
    if (forked(e)) {
        return hf_fail(err, HF_EFORK,
                       "this engine belongs to the parent process; make one here");
    }
    if (hf_load(&((hf_engine *)(uintptr_t)e)->stopped, HF_ACQUIRE) != 0) {
        return hf_fail(err, HF_ECLOSED, "the engine was stopped");
    }
    return 0;
}

/* Takes the lock of submissions, unless the engine can't be used. */
static int begin_submit(hf_engine *e, hf_errbuf err) {
    if (forked(e)) {
        return usable(e, err); /* the lock may be held by a thread that is not here */
    }
    pthread_mutex_lock(&e->submit);
    int rc = usable(e, err);
    if (rc != 0) {
        pthread_mutex_unlock(&e->submit);
    }
    return rc;
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line without its end. Returns 0, HF_EAGAIN for JSON, HF_ENOMEM. */
static int take_line(hf_engine *e, const uint8_t *p, size_t n, batch *b) {
    while (n > 0 && is_space(p[n - 1])) {
        n--;
    }
    while (n > 0 && is_space(*p)) {
        p++;
        n--;
    }
    if (n == 0 || *p == '#') {
        return 0;
    }
    if (*p == '{') {
        return HF_EAGAIN;
    }
    if (skipped(e)) {
        return 0;
    }
    hf_request *r = hf_request_line(&e->settings, p, n);
    if (r == NULL) {
        return HF_ENOMEM;
    }
    admit(e, r, b);
    return 0;
}

static int take_lines(hf_engine *e, const uint8_t *data, size_t len, int last,
                      size_t *used, batch *b) {
    while (*used < len) {
        const uint8_t *line = data + *used;
        const uint8_t *nl = memchr(line, '\n', len - *used);
        if (nl == NULL && !last) {
            return 0;
        }
        if (!has_room(e, b->n, b->charge)) {
            return HF_EFULL;
        }
        size_t n = nl != NULL ? (size_t)(nl - line) : len - *used;
        int rc = take_line(e, line, n, b);
        if (rc != 0) {
            return rc;
        }
        *used += n + (nl != NULL);
    }
    return 0;
}

int hf_engine_submit_lines(hf_engine *e, const uint8_t *data, size_t len, int last,
                           size_t *used, char *err, size_t errlen) {
    *used = 0;
    batch b = {0, 0, hf_now()};
    int rc = begin_submit(e, (hf_errbuf){err, errlen});
    if (rc != 0) {
        return rc;
    }
    rc = take_lines(e, data, len, last, used, &b);
    deliver(e, &b);
    pthread_mutex_unlock(&e->submit);
    return rc == HF_ENOMEM ? hf_fail((hf_errbuf){err, errlen}, rc, "no memory") : rc;
}

static int take_frames(hf_engine *e, const uint8_t *p, size_t len, size_t *used,
                       batch *b) {
    while (*used < len) {
        const uint8_t *f = p + *used;
        size_t left = len - *used;
        uint32_t n = left >= 4 ? (uint32_t)f[0] | (uint32_t)f[1] << 8 |
                                     (uint32_t)f[2] << 16 | (uint32_t)f[3] << 24
                               : UINT32_MAX;
        if (n > left - 4 || left < 4) {
            return HF_EINVAL;
        }
        if (!has_room(e, b->n, b->charge)) {
            return HF_EFULL;
        }
        if (!skipped(e)) {
            int rc;
            hf_request *r = hf_request_unpack(&e->settings, f + 4, n, &rc);
            if (r == NULL) {
                return rc;
            }
            admit(e, r, b);
        }
        *used += 4 + (size_t)n;
    }
    return 0;
}

int hf_engine_submit(hf_engine *e, const uint8_t *frames, size_t len, size_t *used,
                     uint64_t *seq, char *err, size_t errlen) {
    *used = 0;
    *seq = 0;
    hf_errbuf eb = {err, errlen};
    batch b = {0, 0, hf_now()};
    int rc = begin_submit(e, eb);
    if (rc != 0) {
        return rc;
    }
    *seq = e->next_seq;
    rc = take_frames(e, frames, len, used, &b);
    deliver(e, &b);
    pthread_mutex_unlock(&e->submit);
    if (rc == HF_EINVAL || rc == HF_ENOMEM) {
        return hf_fail(eb, rc,
                       rc == HF_EINVAL ? "a packed request is cut or unknown"
                                       : "no memory for a request");
    }
    return rc;
}

static bool low(hf_engine *e) {
    const hf_config *c = &e->settings.c;
    return hf_load(&e->shared.outstanding, HF_SEQ_CST) <=
               HF_LOW_WATER(c->window_requests) &&
           hf_load(&e->shared.charged, HF_SEQ_CST) <= HF_LOW_WATER(c->window_bytes);
}

/* True once for each hf_engine_interrupt. */
static bool take_interrupt(hf_atomic_u32 *flag) {
    return hf_load(flag, HF_ACQUIRE) != 0 && hf_xchg(flag, 0, HF_ACQ_REL) != 0;
}

int hf_engine_wait_room(hf_engine *e, int64_t timeout) {
    hf_wake *w = &e->shared.room;
    int rc = usable(e, (hf_errbuf){NULL, 0});
    if (rc != 0) {
        return rc;
    }
    /* Pairs with notify_room in shard.c, which counts down before it looks. */
    hf_wake_prepare(w);
    rc = low(e) ? 0 : hf_wake_wait(w, timeout);
    hf_wake_cancel(w);
    if (take_interrupt(&e->room_interrupted)) {
        return HF_EINTR;
    }
    return rc != 0 && rc != HF_EAGAIN ? rc : has_room(e, 0, 0) ? 0 : HF_EAGAIN;
}

int hf_engine_finish(hf_engine *e) {
    if (forked(e)) {
        return HF_EFORK;
    }
    /* Pairs with at_end in output.c, which looks again after it has prepared to sleep.
     */
    hf_store(&e->finished, 1, HF_SEQ_CST);
    hf_wake_notify(&e->shared.output);
    hf_wake_notify(&e->shared.policy);
    return 0;
}

/* --- output ------------------------------------------------------------------------
 */

int64_t hf_engine_drain(hf_engine *e, int fd, int64_t timeout, char *err,
                        size_t errlen) {
    return forked(e)
               ? HF_EFORK
               : hf_output_drain(&e->output, fd, timeout, (hf_errbuf){err, errlen});
}

int64_t hf_engine_read(hf_engine *e, uint8_t *buf, size_t cap, int64_t timeout) {
    return forked(e) ? HF_EFORK : hf_output_read(&e->output, buf, cap, timeout);
}

int hf_engine_output_fd(hf_engine *e) {
    return e->shared.output.fd;
}

int hf_engine_output_arm(hf_engine *e) {
    return forked(e) ? HF_EFORK : hf_output_arm(&e->output);
}

/* --- policy ------------------------------------------------------------------------
 */

static int pop_events(hf_engine *e, hf_event *events, int max) {
    int n = 0;
    for (int32_t i = 0; i < e->shared.n_shards && n < max; i++) {
        n += hf_slots_pop(&e->shards[i].events, events + n, max - n);
    }
    return n;
}

static bool no_more_events(hf_engine *e) {
    return hf_load(&e->finished, HF_SEQ_CST) != 0 &&
           hf_load(&e->shared.outstanding, HF_SEQ_CST) == 0;
}

static bool events_ready(hf_engine *e) {
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        if (hf_ring_ready(&e->shards[i].events.ring)) {
            return true;
        }
    }
    return no_more_events(e);
}

int hf_engine_events(hf_engine *e, hf_event *events, int max, int64_t timeout) {
    hf_wake *w = &e->shared.policy;
    if (forked(e)) {
        return HF_EFORK;
    }
    int n = pop_events(e, events, max);
    if (n > 0) {
        return n;
    }
    if (no_more_events(e)) {
        return HF_EEND;
    }
    hf_wake_prepare(w);
    int rc = events_ready(e) ? 0 : hf_wake_wait(w, timeout);
    hf_wake_cancel(w);
    n = pop_events(e, events, max);
    if (n > 0) {
        return n;
    }
    if (rc == HF_EINTR || take_interrupt(&e->policy_interrupted)) {
        return HF_EINTR;
    }
    return no_more_events(e) ? HF_EEND : HF_EAGAIN;
}

int hf_engine_verdicts(hf_engine *e, const hf_verdict *verdicts, int n) {
    int rc = usable(e, (hf_errbuf){NULL, 0});
    /* Which shard holds a request is not known here; the others pass it over. */
    for (int32_t i = 0; rc == 0 && i < e->shared.n_shards; i++) {
        rc = hf_shard_post_verdicts(&e->shards[i], verdicts, n);
    }
    return rc;
}

static int send_order(hf_engine *e, int kind, const char *host, int64_t value) {
    hf_order o = {.kind = kind, .value = value > 0 ? value : 0};
    size_t n = strlen(host);
    if (n >= sizeof o.host) {
        return HF_EINVAL;
    }
    memcpy(o.host, host, n);
    int rc = usable(e, (hf_errbuf){NULL, 0});
    uint32_t shard = hf_shard_of(&e->shared, host, n);
    return rc == 0 ? hf_shard_post_order(&e->shards[shard], &o) : rc;
}

int hf_engine_gate(hf_engine *e, const char *host, int64_t wait) {
    return send_order(e, HF_ORDER_GATE, host, wait);
}

int hf_engine_host_delay(hf_engine *e, const char *host, int64_t delay) {
    return send_order(e, HF_ORDER_DELAY, host, delay);
}

int hf_engine_exits(hf_engine *e, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky) {
    if (forked(e)) {
        return HF_EFORK;
    }
    int rc = hf_exits_update(&e->shared.exits, rows, n, wait_limit, sticky, hf_now());
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_wake_kick(&e->shards[i].wake);
    }
    return rc;
}

int hf_engine_avoid(hf_engine *e, const char *host, int32_t number, int32_t tier,
                    int64_t wait) {
    if (forked(e)) {
        return HF_EFORK;
    }
    int64_t now = hf_now();
    hf_exits_avoid(&e->shared.exits, host, number, tier, now + wait, now);
    return 0;
}

int hf_engine_exit_stats(hf_engine *e, hf_exit_stats *out, int max) {
    return forked(e) ? HF_EFORK : hf_exits_stats(&e->shared.exits, out, max);
}

/* --- control -----------------------------------------------------------------------
 */

int hf_engine_cancel(hf_engine *e, uint64_t seq) {
    int rc = forked(e) ? HF_EFORK : 0;
    for (int32_t i = 0; rc == 0 && i < e->shared.n_shards; i++) {
        rc = hf_shard_post_cancel(&e->shards[i], seq);
    }
    return rc;
}

int hf_engine_stop(hf_engine *e, int64_t drain) {
    if (forked(e)) {
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
    if (forked(e)) {
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

void hf_engine_stats(hf_engine *e, hf_stats *o) {
    memset(o, 0, sizeof *o);
    o->inputs = hf_stat_read(&e->inputs);
    o->skipped = hf_stat_read(&e->skipped);
    o->accepted = hf_stat_read(&e->accepted);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        add_counts(&e->shards[i], o);
    }
    o->wakeups = hf_stat_read(&e->shared.output.wakeups);
    o->lost_wakeups = hf_stat_read(&e->shared.output.lost);
    hf_watchdog_stats(&e->watchdog, o);
}

/* --- the library -------------------------------------------------------------------
 */

int hf_library_probe(const char *path, hf_library *out, char *err, size_t errlen) {
    hf_curl *c = calloc(1, sizeof *c);
    memset(out, 0, sizeof *out);
    if (c == NULL) {
        return HF_ENOMEM;
    }
    int rc = hf_curl_load(c, path, (hf_errbuf){err, errlen});
    if (rc == 0) {
        strncpy(out->version, c->curl_version(), sizeof out->version - 1);
        memcpy(out->missing, c->missing, sizeof out->missing);
        out->version_num = (int32_t)c->version;
        out->impersonates = c->impersonates;
        out->decodes = c->decodes;
    }
    free(c);
    return rc;
}

int hf_library_impersonates(const char *path, const char *target) {
    hf_curl *c = calloc(1, sizeof *c);
    int known = 0;
    if (c != NULL && hf_curl_load(c, path, (hf_errbuf){NULL, 0}) == 0 &&
        c->impersonates) {
        CURL *easy = c->curl_easy_init();
        known = easy != NULL && c->curl_easy_impersonate(easy, target, 1) == 0;
        if (easy != NULL) {
            c->curl_easy_cleanup(easy);
        }
    }
    free(c);
    return known;
}

const char *hf_name_type(int32_t type) {
    return type >= 0 && type < HF_T_COUNT ? hf_type_name(type) : NULL;
}

const char *hf_name_phase(int32_t phase) {
    return phase >= 0 && phase < HF_P_COUNT ? hf_phase_name(phase) : NULL;
}

const char *hf_name_origin(int32_t origin) {
    return origin >= 0 && origin < HF_O_COUNT ? hf_origin_name(origin) : NULL;
}

const char *hf_name_code(int32_t code) {
    return hf_code_name(code);
}
