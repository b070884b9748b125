#include "loop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "attempt.h"
#include "clock.h"
#include "magazine.h"

/* How often the clock is read: events, or us of work. */
#define CLOCK_EVENTS 64
#define CLOCK_WORK 1000
/* Deadlines run in one go before sockets get their turn again. */
#define DUE_SLICE 256
/* Starts in one go, beside those that take the place of what ended: a start costs more
 * than an event, and what is in flight must not wait for a thousand of them. */
#define START_SLICE 16
/* us by which the loop is late when something other than its own work held it: the
 * process was stopped, the machine starved, a call into libcurl did not return. */
#define AWAY 250000
/* us that limits which passed meanwhile wait for what came meanwhile. */
#define MERCY 100000

/* --- making and ending -------------------------------------------------------------
 */

int hf_loop_new(hf_shard *s, hf_loop **out, hf_errbuf err) {
    hf_loop *l = calloc(1, sizeof *l);
    *out = NULL;
    if (l == NULL) {
        return hf_fail(err, HF_ENOMEM, "no memory for a loop");
    }
    l->shard = s;
    l->settings = s->settings;
    l->curl = &s->settings->curl;
    atomic_init(&l->earliest_hard, HF_NEVER);
    l->poller.epfd = l->poller.timerfd = -1;
    l->poller.ctls = &s->counts.epoll_ctls;
    l->poller.sets = &s->counts.timer_sets;
    l->poller.waits = &s->counts.epoll_waits;
    int rc = hf_poller_init(&l->poller, s->wake.fd, err);
    if (rc != 0) {
        hf_poller_free(&l->poller);
        free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void hf_loop_quit(hf_loop *l) {
    /* Pairs with the load in run: the wake-up only makes it look. */
    hf_store(&l->quit, 1, HF_RELEASE);
    hf_wake_kick(&l->shard->wake);
}

static void free_all(hf_loop *l) {
    hf_identity_free_all(l);
    hf_decoders_free(&l->decoders);
    hf_heap_free(&l->timers);
    hf_poller_free(&l->poller);
}

void hf_loop_free(hf_loop *l) {
    if (l == NULL) {
        return;
    }
    if (l->started) {
        pthread_join(l->thread, NULL);
    } else {
        free_all(l);
    }
    free(l);
}

void hf_loop_touch(hf_loop *l, hf_lane *lane) {
    if (!lane->touched) {
        lane->touched = true;
        lane->touched_next = l->touched;
        l->touched = lane;
    }
}

/* Reads the clock, and sees whether the loop has been away since it last did, or, if
 * it slept, since the time it wanted to wake. */
static void read_clock(hf_loop *l, int64_t wanted) {
    int64_t from = wanted > l->now ? wanted : l->now;
    l->now = hf_now();
    if (l->now - from > AWAY) {
        l->woke = l->now;
    }
}

/* Limits run from l->now: one that is old would cut what starts now short. */
bool hf_loop_come_back(hf_loop *l) {
    l->lost = !hf_heart_leave(&l->heart);
    read_clock(l, 0);
    return !l->lost;
}

static bool call_action(hf_loop *l, hf_lane *lane, int fd, int mask) {
    int running = 0;
    hf_heart_enter(&l->heart, "curl_multi_socket_action", l->now);
    l->curl->curl_multi_socket_action(lane->multi, fd, mask, &running);
    if (!hf_loop_come_back(l)) {
        return false;
    }
    lane->actions++;
    hf_stat_add(&l->shard->counts.socket_actions, 1);
    hf_loop_touch(l, lane);
    return true;
}

/* --- what libcurl has done, and what may start -------------------------------------
 */

static void publish_earliest(hf_loop *l) {
    int64_t at = hf_heap_next(&l->shard->hards);
    /* Read by the watchdog, which wants no more than a time that is not too late. */
    atomic_store_explicit(&l->earliest_hard, at, memory_order_relaxed);
}

/* Starts what may start, a slice of it. */
static void admit(hf_loop *l) {
    int32_t most = START_SLICE + l->freed;
    l->freed = 0;
    for (int32_t i = 0; i < most && !l->lost; i++) {
        hf_request *r = hf_shard_next(l->shard, l->now);
        if (r == NULL) {
            return;
        }
        publish_earliest(l); /* start may be where libcurl gets stuck */
        hf_attempt_start(l, r);
    }
}

static void drain_multi(hf_loop *l, hf_lane *lane) {
    int left;
    CURLMsg *m;
    while (!l->lost &&
           (m = l->curl->curl_multi_info_read(lane->multi, &left)) != NULL) {
        char *p = NULL;
        int code = m->data.result;
        if (m->msg != CURLMSG_DONE) {
            continue;
        }
        l->curl->curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p);
        hf_transfer *t = (hf_transfer *)(void *)p;
        /* Else it has ended already, and what it does now has not begun. */
        if (t != NULL && t->in_multi && t->added_at != lane->actions) {
            hf_attempt_done(l, t, code);
        }
    }
}

/* libcurl may want another time than it said last: older ones forget to say. */
static void reread_timer(hf_loop *l, hf_lane *lane) {
    long ms = -1;
    l->curl->curl_multi_timeout(lane->multi, &ms);
    hf_heap_set(&l->timers, &lane->timer,
                ms < 0 ? HF_NEVER : l->now + (int64_t)ms * 1000);
}

static void drain_touched(hf_loop *l) {
    while (l->touched != NULL && !l->lost) {
        hf_lane *lane = l->touched;
        l->touched = lane->touched_next;
        lane->touched = false;
        drain_multi(l, lane);
        if (!l->lost) {
            reread_timer(l, lane);
        }
    }
}

/* --- time --------------------------------------------------------------------------
 */

/* When a limit that was due at `at` is carried out. One that passed while the loop was
 * away leaves it a moment to read what its sockets hold: the answer may have come in
 * time. The hard limit and the job's deadline are never moved. */
static int64_t carried_out(const hf_loop *l, const hf_request *r, int64_t at) {
    int64_t hard = r->attempt_start + r->limits.hard;
    int64_t firm = hard < r->job_due ? hard : r->job_due;
    int64_t mercy = l->woke + MERCY < firm ? l->woke + MERCY : firm;
    return at > l->woke ? at : mercy;
}

/* Whether libcurl may know by now that no response will come: nghttp2 has met a frame
 * that breaks the rules, and libcurl reports it only when it reads once more. */
static bool may_be_over(const hf_transfer *t) {
    return t->sent_at > 0 && (!t->got_bytes || t->resp->http_version == 20);
}

/* Such a frame may have come in the very call that sent the request. Returns false
 * where this look has ended the request. */
static bool look_once_more(hf_loop *l, hf_request *r) {
    hf_transfer *t = r->transfer;
    if (!t->url->tls || t->fd < 0 || !may_be_over(t)) {
        return true;
    }
    if (call_action(l, t->lane, t->fd, CURL_CSELECT_IN)) {
        drain_multi(l, t->lane);
    }
    return !l->lost && t->req == r && t->in_multi;
}

static void request_due(hf_loop *l, hf_request *r) {
    if (r->state != HF_R_RUNNING) {
        hf_shard_due(l->shard, r, l->now);
        return;
    }
    int due;
    int64_t at = hf_transfer_up(r->transfer, &due);
    int64_t end_at = carried_out(l, r, at);
    if (end_at > l->now) {
        hf_heap_set(&l->shard->heap, &r->due, end_at);
    } else if (look_once_more(l, r)) {
        hf_attempt_expire(l, r->transfer, due, at);
    }
}

static hf_request *request_of(hf_due *d) {
    return (hf_request *)(void *)((char *)d - offsetof(hf_request, due));
}

static hf_host *host_of(hf_due *d) {
    return (hf_host *)(void *)((char *)d - offsetof(hf_host, due));
}

static hf_lane *lane_of(hf_due *d) {
    return (hf_lane *)(void *)((char *)d - offsetof(hf_lane, timer));
}

/* Runs what is due, a slice at a time, so that a mass expiry is not one long call. */
static void run_due(hf_loop *l) {
    for (int i = 0; i < DUE_SLICE && !l->lost; i++) {
        hf_due *d = hf_heap_pop(&l->shard->heap, l->now);
        if (d == NULL) {
            return;
        }
        if (d->kind == HF_KIND_HOST) {
            hf_schedule_due(&l->shard->schedule, host_of(d));
        } else {
            request_due(l, request_of(d));
        }
        if (i % 16 == 15) {
            l->now = hf_now();
        }
    }
}

static void run_timers(hf_loop *l) {
    /* A timer that is due again at once has its turn at the next look. */
    for (int32_t n = l->n_lanes; n > 0 && !l->lost; n--) {
        hf_due *d = hf_heap_pop(&l->timers, l->now);
        if (d == NULL) {
            return;
        }
        call_action(l, lane_of(d), CURL_SOCKET_TIMEOUT, 0);
    }
}

/* wanted: when the loop meant to look, if it slept. */
static void look_at_clock(hf_loop *l, int64_t wanted) {
    read_clock(l, wanted);
    l->budget = CLOCK_EVENTS;
    run_due(l);
}

/* --- one iteration -----------------------------------------------------------------
 */

/* After bytes under TLS that brought no request on. */
static void look_again(hf_loop *l, hf_lane *lane, int fd, uint32_t gen) {
    const hf_sock *s = hf_poller_find(&l->poller, fd);
    if (s == NULL || s->gen != gen || s->owner != lane || s->want == 0) {
        return;
    }
    const hf_transfer *t = s->opener;
    if (t != NULL && t->opened && t->sent_at > 0) {
        hf_sessions_note(t->identity);
    }
    if (t == NULL || may_be_over(t)) {
        call_action(l, lane, fd, CURL_CSELECT_IN);
    }
}

static void serve_socket(hf_loop *l, const hf_happening *h) {
    hf_sock *s = h->sock;
    if (s->ours && s->want == 0) {
        hf_poller_idle_event(&l->poller, h->fd, s, h->events);
        return;
    }
    int mask = 0;
    mask |= (h->events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0;
    mask |= (h->events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0;
    mask |= (h->events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0;
    if (s->opener != NULL && (h->events & EPOLLIN) != 0) {
        hf_transfer_peek_tls(s->opener);
    }
    hf_lane *lane = s->owner;
    if (lane == NULL) {
        return;
    }
    bool tls = s->ours && s->tls && (mask & CURL_CSELECT_IN) != 0;
    uint32_t gen = s->gen;
    uint64_t steps = l->steps;
    if (call_action(l, lane, h->fd, mask) && tls && l->steps == steps) {
        look_again(l, lane, h->fd, gen);
    }
    if (!l->lost) {
        /* What has ended gets its record while its body is still in the cache. */
        drain_multi(l, lane);
    }
}

static bool serve(hf_loop *l, const struct epoll_event *raw, int n) {
    bool wake = false;
    int64_t last = l->now;
    for (int i = 0; i < n && !l->lost; i++) {
        hf_happening h;
        if (--l->budget <= 0 || l->now - last > CLOCK_WORK) {
            look_at_clock(l, 0);
            last = l->now;
        }
        if (!l->lost && hf_poller_read(&l->poller, &raw[i], &h)) {
            wake |= h.what == HF_AT_WAKE;
            if (h.what == HF_AT_SOCKET) {
                serve_socket(l, &h);
            }
        }
    }
    return wake;
}

/* Ends running requests that were cancelled, or all of them once a stop's time is up.
 */
static void abort_running(hf_loop *l) {
    hf_shard *s = l->shard;
    bool all = l->now >= s->stop_at;
    hf_request *next;
    for (hf_request *r = s->running.first; r != NULL && !l->lost; r = next) {
        next = r->next;
        if (!all && !r->cancelled) {
            continue;
        }
        hf_attempt_abort(l, r);
    }
}

static int64_t next_time(const hf_loop *l) {
    int64_t at = hf_heap_next(&l->shard->heap);
    int64_t timer = hf_heap_next(&l->timers);
    at = timer < at ? timer : at;
    if (l->shard->exits_at > 0 && l->shard->exits_at < at) {
        at = l->shard->exits_at;
    }
    return l->shard->running.n > 0 && l->shard->stop_at < at ? l->shard->stop_at : at;
}

/* Work that needs no event: ends what is done, starts what may start. */
static void settle_down(hf_loop *l) {
    drain_touched(l);
    if (l->lost) {
        return;
    }
    hf_shard_unpark(l->shard, l->now);
    admit(l);
    if (!l->lost) {
        run_timers(l);
    }
    if (!l->lost) {
        drain_touched(l);
    }
}

/* Before sleeping: is there room to be told of, or work that came meanwhile? */
static bool may_sleep(hf_loop *l) {
    hf_shard *s = l->shard;
    if (l->touched != NULL || hf_shard_may_start(s, l->now) || hf_shard_may_unpark(s)) {
        return false;
    }
    return s->parked.first == NULL || hf_ring_want_room(&s->ring) != 1;
}

static void iterate(hf_loop *l) {
    struct epoll_event raw[HF_POLL_EVENTS];
    hf_shard *s = l->shard;
    int64_t at = next_time(l);
    hf_wake_prepare(&s->wake);
    bool waits = hf_inbox_waits(&s->inbox, s->stop_at);
    if (waits || !may_sleep(l) || hf_load(&l->quit, HF_ACQUIRE) != 0) {
        at = 0;
    }
    int n = hf_poller_wait(&l->poller, at, l->now, raw);
    hf_wake_cancel(&s->wake);
    look_at_clock(l, at);
    bool wake = !l->lost && serve(l, raw, n);
    if (l->lost) {
        return;
    }
    bool cancelled = (wake || waits) && hf_shard_take_inbox(s, &l->now);
    if (cancelled || l->now >= s->stop_at) {
        abort_running(l);
    }
    if (!l->lost) {
        run_timers(l);
        settle_down(l);
    }
    if (!l->lost) {
        hf_poller_reconcile(&l->poller);
        publish_earliest(l);
        hf_shard_publish(s);
    }
}

static void *run(void *arg) {
    hf_loop *l = arg;
    hf_magazine_open();
    l->now = hf_now();
    while (!l->lost && hf_load(&l->quit, HF_ACQUIRE) == 0) {
        iterate(l);
    }
    free_all(l);
    hf_magazine_close();
    hf_store(&l->ended, 1, HF_RELEASE);
    return NULL;
}

int hf_loop_start(hf_loop *l, hf_errbuf err) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return hf_fail(err, HF_ESYS, "pthread_create failed with code %d", rc);
    }
    l->started = true;
    return 0;
}
