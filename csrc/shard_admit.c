/* What may start now: the backlog, slots in flight, exits. */
#include <stdlib.h>

#include "shard_hop.h"

/* us between two looks for an exit while none is free. */
#define EXIT_LOOK 50000

int hf_shard_reserve(hf_shard *s) {
    int32_t n = (int32_t)s->held.n;
    int rc = hf_heap_reserve(&s->hards, n);
    return rc != 0 ? rc
                   : hf_heap_reserve(&s->heap, n + (int32_t)s->schedule.hosts.n + 1);
}

static void refuse(hf_shard *s, hf_request *r, int64_t now) {
    hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, HF_P_QUEUE, HF_O_LOCAL, NULL);
    hf_shard_report(s, r, now);
}

void hf_shard_file(hf_shard *s, hf_request *r, int64_t now) {
    hf_held_add(&s->held, r);
    if (hf_request_invalid(r)) {
        hf_shard_report(s, r, now);
        return;
    }
    if (s->stopping) {
        hf_shard_drop(s, r, now);
        return;
    }
    if (hf_shard_reserve(s) != 0) {
        refuse(s, r, now);
        return;
    }
    if (r->limits.job > 0) {
        r->job_due = r->accepted + r->limits.job;
        hf_heap_set(&s->heap, &r->due, r->job_due);
    }
    if (r->held) {
        r->state = HF_R_JUDGED;
        hf_stat_add(&s->counts.policy, 1);
        return;
    }
    if (hf_schedule_push(&s->schedule, r, false, now) != 0) {
        refuse(s, r, now);
    }
}

static bool take_slot(hf_shard *s) {
    hf_shared *sh = s->shared;
    uint64_t most = (uint64_t)s->settings->c.max_concurrency;
    uint64_t now = hf_load(&sh->in_flight, HF_SEQ_CST);
    while (now < most) {
        if (hf_cas(&sh->in_flight, &now, now + 1, HF_SEQ_CST, HF_SEQ_CST)) {
            return true;
        }
    }
    return false;
}

void hf_shard_give_slot(hf_shard *s) {
    hf_shared *sh = s->shared;
    hf_add(&sh->in_flight, (uint64_t)-1, HF_SEQ_CST);
    if (sh->n_shards > 1 && hf_load(&sh->starving, HF_SEQ_CST) != 0 &&
        hf_xchg(&sh->starving, 0, HF_SEQ_CST) != 0) {
        for (int32_t i = 0; i < sh->n_shards; i++) {
            if (&sh->shards[i] != s) {
                hf_wake_notify(&sh->shards[i].wake);
            }
        }
    }
}

static bool may_admit(const hf_shard *s) {
    return !s->stopping && s->parked.first == NULL && s->unjudged.first == NULL &&
           hf_load(&s->shared->paused, HF_ACQUIRE) == 0;
}

/* Whether the shard alone would let something start. */
static bool wants_slot(const hf_shard *s, int64_t now) {
    return s->schedule.ready.first != NULL && may_admit(s) && now >= s->exits_at &&
           s->running.n < s->shortage.cap;
}

bool hf_shard_may_start(hf_shard *s, int64_t now) {
    if (!wants_slot(s, now)) {
        return false;
    }
    /* Say so, then look: pairs with give_slot, which counts first and looks at starving
     * then. After hf_wake_prepare, or its wake-up would find nobody asleep. */
    hf_store(&s->shared->starving, 1, HF_SEQ_CST);
    return hf_load(&s->shared->in_flight, HF_SEQ_CST) <
           (uint64_t)s->settings->c.max_concurrency;
}

/* The next request whose host lets it start; those that it refuses get their record,
 * and tickets go home. */
static hf_request *pop(hf_shard *s, int64_t now) {
    bool refused;
    hf_request *r;
    while ((r = hf_schedule_pop(&s->schedule, now, &refused)) != NULL &&
           (refused || r->is_ticket)) {
        if (r->is_ticket) {
            int32_t type = refused ? HF_T_HOST_UNAVAILABLE : HF_T_NONE;
            hf_shard_answer_ticket(s, r, type, now);
            continue;
        }
        hf_outcome_set(&r->outcome, HF_T_HOST_UNAVAILABLE, HF_P_QUEUE, HF_O_LOCAL,
                       NULL);
        hf_shard_report(s, r, now);
        if (s->parked.first != NULL) {
            return NULL;
        }
    }
    return r;
}

/* Its session's exit is taken: the others must not wait behind it. */
static void set_aside(hf_shard *s, hf_request *r, int64_t now) {
    hf_schedule_unpop(&s->schedule, r, now);
    hf_schedule_remove(&s->schedule, r, now);
    r->state = HF_R_BACKOFF;
    hf_stat_add(&s->counts.policy, 1);
    int64_t at = now + EXIT_LOOK;
    hf_heap_set(&s->heap, &r->due, at < r->job_due ? at : r->job_due);
}

/* No exit is free: wait for one, or, after the limit, let the request end. */
static bool lack_exit(hf_shard *s, hf_request *r, int64_t until, int64_t now) {
    hf_exits *x = &s->shared->exits;
    if (s->no_exit_since == 0) {
        s->no_exit_since = now;
    }
    int64_t give_up = s->no_exit_since + x->wait_limit;
    if (now >= give_up) {
        hf_outcome_set(&r->outcome, HF_T_NO_PROXY_AVAILABLE, HF_P_QUEUE, HF_O_LOCAL,
                       NULL);
        hf_pace_end none = {.type = r->outcome.type, .origin = HF_O_LOCAL};
        hf_schedule_landed(&s->schedule, r, &none, now);
        hf_shard_report(s, r, now);
        return false;
    }
    hf_schedule_unpop(&s->schedule, r, now);
    /* An exclusive exit may come free without notice: look again soon. */
    s->exits_at = now + EXIT_LOOK;
    s->exits_at = until < s->exits_at ? until : s->exits_at;
    s->exits_at = give_up < s->exits_at ? give_up : s->exits_at;
    return false;
}

/* Gives the request its exit, unless it has a proxy of its own or needs none. Returns
 * false when there is none now; the request is then dealt with. */
static bool find_exit(hf_shard *s, hf_request *r, int64_t now) {
    hf_exits *x = &s->shared->exits;
    hf_pick pick;
    bool has = r->hopping && (r->exit < 0 || r->exit_taken);
    if (has || r->proxy.p != NULL || !hf_exits_active(x)) {
        return true;
    }
    const hf_url *url = hf_request_url(r);
    hf_wish wish = {r->session.p, r->session.n, url->hostport, url->hostport_len};
    if (r->next_proxy != NULL && r->exit >= 0) {
        if (hf_exits_start(x, r->exit, &wish, now)) {
            return true;
        }
        r->exit = -1;
    }
    if (hf_exits_pick(x, &wish, now, &pick) != 0) {
        if (pick.leased) {
            set_aside(s, r, now);
            return false;
        }
        return lack_exit(s, r, pick.until, now);
    }
    s->no_exit_since = s->exits_at = 0;
    free(r->next_proxy);
    r->next_proxy = strdup(pick.url);
    r->exit = pick.number;
    r->exit_probe = pick.probe;
    if (r->next_proxy == NULL) {
        hf_exits_end(x, pick.number, HF_EXIT_NO_NEWS, 0, now);
        r->exit = -1;
        return lack_exit(s, r, now, now);
    }
    return true;
}

/* Lets the clock of the attempt run: a new one, or from where it stood at the last hop.
 */
static void begin(hf_shard *s, hf_request *r, int64_t now) {
    r->attempt_start = r->hop_start = now;
    if (r->hopping) {
        r->hopping = false;
        r->attempt_start -= r->spent;
        r->wait += now - r->hop_left;
    } else {
        hf_stat_add(&s->counts.started, 1);
    }
    r->state = HF_R_RUNNING;
    hf_requests_append(&s->running, r);
    hf_heap_set(&s->hards, &r->hard, r->attempt_start + r->limits.hard);
}

hf_request *hf_shard_next(hf_shard *s, int64_t now) {
    if (!wants_slot(s, now) || !take_slot(s)) {
        return NULL;
    }
    hf_request *r = pop(s, now);
    while (r != NULL && !find_exit(s, r, now)) {
        r = s->exits_at > now || s->parked.first != NULL ? NULL : pop(s, now);
    }
    if (r == NULL) {
        hf_shard_give_slot(s);
        return NULL;
    }
    if (r->response == NULL) {
        r->response = hf_shard_response(s);
    }
    if (r->response == NULL) {
        if (r->exit >= 0) {
            hf_exits_end(&s->shared->exits, r->exit, HF_EXIT_NO_NEWS, 0, now);
        }
        hf_schedule_unpop(&s->schedule, r, now);
        hf_shard_give_slot(s);
        return NULL;
    }
    if (r->first_start == 0) {
        r->first_start = now;
    }
    begin(s, r, now);
    return r;
}
