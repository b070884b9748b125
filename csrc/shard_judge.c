/* How attempts end: in a record, or before policy, which may want another one. */
#include <stdlib.h>
#include <string.h>

#include "shard_hop.h"

/* us that a refusal closes a gate for until policy has said how long. */
#define GATE_FIRST 500000

bool hf_shard_asks_body(const hf_shard *s, const hf_request *r) {
    return s->settings->c.ask_bodies != 0 && r->outcome.type == HF_T_NONE &&
           !r->matched && !r->hopping && r->response != NULL &&
           r->response->body.len > 0;
}

static bool is_retried(const hf_shard *s, int status) {
    const hf_config *c = &s->settings->c;
    return status >= 0 && status < 600 &&
           (c->retry_statuses[status / 8] >> (status % 8) & 1) != 0;
}

/* Whether it ended in what policy may try again. */
static bool has_failed(const hf_shard *s, const hf_request *r) {
    int type = r->outcome.type;
    if (type != HF_T_NONE) {
        return (s->settings->c.retry_types >> type & 1) != 0;
    }
    return r->matched || is_retried(s, r->response != NULL ? r->response->status : 0);
}

static bool policy_wants(const hf_shard *s, const hf_request *r) {
    return !s->stopping && !r->cancelled &&
           (has_failed(s, r) || hf_shard_asks_body(s, r));
}

static void deny(hf_request *r, const char *why) {
    size_t n = strnlen(why, sizeof r->denied - 1);
    memcpy(r->denied, why, n);
    r->denied[n] = '\0';
}

/* Says of what a stop leaves without another attempt that it was for the stop. */
static void deny_for_stop(const hf_shard *s, hf_request *r) {
    if (s->stopping && !r->cancelled && has_failed(s, r)) {
        deny(r, "shutdown");
    }
}

/* Whether policy closes gates for this status: it asks to see it then. */
static bool is_gate(const hf_shard *s, int status) {
    return (status == 429 || status == 503) && is_retried(s, status);
}

/* What an end says about the exit, as proxy_mark of hardfetch/classify.py has it. */
static int exit_news(const hf_outcome *e, int status) {
    switch (e->type) {
    case HF_T_NONE:
        /* Over plain http a proxy answers with these in its own name. */
        return status == 502 || status == 503 || status == 504 ? HF_EXIT_SUSPECT
                                                               : HF_EXIT_ANSWERED;
    case HF_T_HEADERS_TOO_LARGE:
    case HF_T_REDIRECT_LOOP:
    case HF_T_TOO_MANY_REDIRECTS:
    case HF_T_BAD_REDIRECT:
        return HF_EXIT_ANSWERED;
    default:
        break;
    }
    return e->origin == HF_O_PROXY  ? HF_EXIT_FAILED
           : e->origin == HF_O_SITE ? HF_EXIT_SUSPECT
                                    : HF_EXIT_NO_NEWS;
}

void hf_shard_leave_host(hf_shard *s, hf_request *r, const hf_pace_end *end,
                         int64_t now) {
    hf_host *h = r->host;
    uint32_t opened = h->pace.opened;
    if (end->type == HF_T_NONE && is_gate(s, end->status)) {
        hf_pace_close_gate(&h->pace, now + GATE_FIRST, now);
    }
    hf_schedule_landed(&s->schedule, r, end, now);
    if (h->pace.opened != opened) {
        hf_stat_add(&s->counts.breakers, 1);
        hf_shard_tell_opened(s, h);
    }
}

void hf_shard_land(hf_shard *s, hf_request *r, const hf_pace_end *end, int64_t now) {
    hf_requests_remove(&s->running, r);
    hf_heap_remove(&s->heap, &r->due);
    hf_heap_remove(&s->hards, &r->hard);
    r->host_alive = r->host->pace.last_ok > r->hop_start;
    r->host_requests = r->host->pace.requests;
    hf_shard_leave_host(s, r, end, now);
    hf_shard_give_slot(s);
    r->transfer = NULL;
    if (r->ticket != NULL) {
        r->host_requests = r->ticket->host_requests;
        hf_shard_return_ticket(r, end);
    }
}

/* Ends the flight and the attempt: host, engine and exit may start another. */
static void land(hf_shard *s, hf_request *r, int64_t now) {
    hf_pace_end end = {.type = r->outcome.type,
                       .origin = r->outcome.origin,
                       .status = r->response != NULL ? r->response->status : 0,
                       .elapsed = now - r->hop_start,
                       .via_proxy = r->proxy_shown != NULL};
    if (r->exit >= 0) {
        hf_exits_end(&s->shared->exits, r->exit, exit_news(&r->outcome, end.status),
                     end.elapsed, now);
        s->exits_at = 0; /* it may be free now */
    }
    hf_shard_land(s, r, &end, now);
}

void hf_shard_abort(hf_shard *s, hf_request *r, int64_t now) {
    hf_outcome_set(&r->outcome, HF_T_SHUTDOWN, HF_P_QUEUE, HF_O_LOCAL, NULL);
    land(s, r, now);
    hf_shard_drop(s, r, now);
}

static void note_rejected(hf_request *r, int32_t why) {
    if (r->n_attempts > 0) {
        r->attempts[r->n_attempts - 1].rejected = why;
    }
}

/* Whether the answer's body holds one of the texts that policy asks for. */
static bool matches(const hf_shard *s, const hf_request *r) {
    const hf_response *resp = r->response;
    const char *const *p = s->settings->c.body_patterns;
    if (p == NULL || resp == NULL || r->outcome.type != HF_T_NONE) {
        return false;
    }
    size_t n = resp->body.len < HF_MATCH_BYTES ? resp->body.len : HF_MATCH_BYTES;
    for (; *p != NULL; p++) {
        if (n > 0 && memmem(resp->body.data, n, *p, strlen(*p)) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether the attempt failed of what this machine lacks for a moment: then it does not
 * count, and the request waits for another. */
static bool put_off(hf_shard *s, hf_request *r, int64_t now) {
    if (!hf_shortage_is(r->outcome.type)) {
        hf_shortage_pass(&s->shortage, now);
        return false;
    }
    int64_t wait = hf_shortage_meet(&s->shortage, &r->put_off, s->running.n, now);
    if (r->cancelled || wait < 0) {
        return false;
    }
    hf_stat_add(&s->counts.started, (uint64_t)-1);
    hf_stat_add(&s->counts.shortages, 1);
    if (s->stopping) {
        hf_shard_drop(s, r, now);
        return true;
    }
    r->wait += wait;
    r->state = HF_R_BACKOFF;
    hf_stat_add(&s->counts.policy, 1);
    int64_t at = now + wait;
    hf_heap_set(&s->heap, &r->due, at < r->job_due ? at : r->job_due);
    return true;
}

/* A host may refuse one exit and serve it others' pages: told pair by pair. */
static void note_pair(hf_shard *s, hf_request *r, int status, int64_t now) {
    int news = exit_news(&r->outcome, status);
    const hf_url *url = hf_request_url(r);
    hf_wish w = {.host = url->hostport, .host_len = url->hostport_len};
    bool served =
        news == HF_EXIT_ANSWERED && status != 403 && status != 429 && !r->matched;
    if (news != HF_EXIT_NO_NEWS) {
        r->pair_failures = hf_exits_pair(&s->shared->exits, r->exit, &w, served, now);
    }
}

void hf_shard_finish(hf_shard *s, hf_request *r, int64_t now) {
    land(s, r, now);
    if (put_off(s, r, now)) {
        return;
    }
    int status = r->response != NULL ? r->response->status : 0;
    hf_request_note_attempt(r, status, now - r->attempt_start, r->proxy_shown);
    r->matched = matches(s, r);
    note_rejected(r, r->matched ? HF_REJECTED_BODY : HF_REJECTED_NOT);
    if (r->exit >= 0) {
        note_pair(s, r, status, now);
    }
    if (r->n_attempts > 0 && policy_wants(s, r)) {
        hf_shard_judge(s, r, now);
        return;
    }
    if (r->exit >= 0 && (r->exit_probe || r->n_attempts > 1)) {
        /* Good news heals an exit; when there is no room for it, the next will do. */
        hf_shard_tell(s, r, HF_EV_NEWS, now);
    }
    deny_for_stop(s, r);
    hf_shard_report(s, r, now);
}

void hf_shard_lose(hf_shard *s, hf_request *r, bool stopped, int64_t now) {
    bool head_done = r->response != NULL && r->response->head_done;
    /* The transfer is the old loop's, which may wake and free it at any time. Its body
     * is not: libcurl may still send it. */
    r->leaked = r->transfer != NULL && r->body.p != NULL;
    if (stopped && now < r->attempt_start + r->limits.hard) {
        hf_shard_abort(s, r, now);
        return;
    }
    hf_outcome_set(&r->outcome, HF_T_ENGINE_STALLED,
                   head_done ? HF_P_BODY : HF_P_CONNECT, HF_O_LOCAL, NULL);
    land(s, r, now);
    r->outcome.truncated = head_done ? HF_TRUNC_TIME : HF_TRUNC_NONE;
    r->outcome.overrun = now - (r->attempt_start + r->limits.hard);
    if (r->outcome.overrun < 0) {
        r->outcome.overrun = -1; /* taken down with the loop, before its own time */
    }
    int status = r->response != NULL ? r->response->status : 0;
    hf_request_note_attempt(r, status, now - r->attempt_start, r->proxy_shown);
    hf_shard_report(s, r, now);
}

/* --- verdicts, back-off, cancel, stop ----------------------------------------------
 */

static void leave_unjudged(hf_shard *s, hf_request *r) {
    for (hf_request *u = s->unjudged.first; u != NULL; u = u->next) {
        if (u == r) {
            hf_requests_remove(&s->unjudged, r);
            break;
        }
    }
}

static void leave_policy(hf_shard *s, hf_request *r) {
    leave_unjudged(s, r);
    hf_stat_add(&s->counts.policy, (uint64_t)-1);
}

static void start_backoff(hf_shard *s, hf_request *r, const hf_verdict *v,
                          int64_t now) {
    free(r->next_proxy);
    r->next_proxy = v->proxy[0] != '\0' ? strdup(v->proxy) : NULL;
    r->exit = r->next_proxy != NULL ? v->exit : -1;
    r->exit_probe = false;
    r->fresh |= v->fresh != 0;
    r->checked = r->matched = false;
    r->wait = v->delay > 0 ? v->delay : 0;
    r->state = HF_R_BACKOFF;
    hf_stat_add(&s->counts.retries, v->silent ? 0 : 1);
    int64_t at = now + r->wait;
    hf_heap_set(&s->heap, &r->due, at < r->job_due ? at : r->job_due);
}

/* Gives what has waited its turn again: before the others, or behind them. */
static void requeue(hf_shard *s, hf_request *r, bool again, int64_t now) {
    hf_stat_add(&s->counts.policy, (uint64_t)-1);
    hf_heap_set(&s->heap, &r->due, r->job_due);
    if (r->response != NULL) {
        hf_spares_take(&s->spares, &r->response->body);
        hf_response_reset(r->response, HF_KEEP_BYTES);
    }
    if (hf_schedule_push(&s->schedule, r, again, now) != 0) {
        hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, HF_P_QUEUE, HF_O_LOCAL, NULL);
        hf_shard_report(s, r, now);
    }
}

/* A record of it is out whose content nobody has looked at: one that says so follows.
 */
static void report_unchecked(hf_shard *s, hf_request *r, int64_t now) {
    leave_policy(s, r);
    r->checked = true;
    deny(r, "unchecked");
    hf_shard_report(s, r, now);
}

/* The caller has looked at the record of a provisional request. */
static void take_content(hf_shard *s, hf_request *r, bool bad, int64_t now) {
    if (!bad) {
        leave_policy(s, r);
        hf_shard_settle(s, r);
        return;
    }
    r->provisional = false;
    r->checked = r->matched = true;
    note_rejected(r, HF_REJECTED_VALIDATE);
    if (s->unjudged.first != NULL || !hf_shard_tell(s, r, 0, now)) {
        hf_requests_append(&s->unjudged, r);
    }
}

void hf_shard_verdict(hf_shard *s, const hf_verdict *v, int64_t now) {
    hf_request *r = hf_held_find(&s->held, v->seq);
    if (r == NULL || r->state != HF_R_JUDGED) {
        return;
    }
    if (r->provisional) {
        take_content(s, r, v->content != 0, now);
        return;
    }
    if (r->hopping && v->retry && !s->stopping) {
        leave_policy(s, r);
        hf_shard_place(s, r, now);
        return;
    }
    if (v->retry && r->held && !s->stopping) {
        r->held = false;
        requeue(s, r, false, now); /* in the order in which they came */
        return;
    }
    if (v->content != 0 && !r->hopping && !r->matched) {
        r->matched = true;
        note_rejected(r, HF_REJECTED_BODY);
    }
    if (v->retry && !r->hopping && !s->stopping) {
        leave_unjudged(s, r);
        start_backoff(s, r, v, now);
        return;
    }
    leave_policy(s, r);
    if (r->n_attempts == 0 || r->hopping) {
        bool known = v->type > HF_T_NONE && v->type < HF_T_COUNT;
        hf_outcome_set(&r->outcome, known ? v->type : HF_T_CANCELLED, HF_P_QUEUE,
                       HF_O_LOCAL, NULL);
    }
    deny(r, v->denied);
    hf_shard_report(s, r, now);
}

void hf_shard_due(hf_shard *s, hf_request *r, int64_t now) {
    if (r->provisional && r->state == HF_R_JUDGED) {
        report_unchecked(s, r, now);
        return;
    }
    if (now >= r->job_due) {
        int64_t overrun = now - r->job_due;
        if (r->state == HF_R_QUEUED) {
            hf_schedule_remove(&s->schedule, r, now);
        } else {
            leave_policy(s, r);
        }
        hf_outcome_set(&r->outcome, HF_T_DEADLINE, HF_P_QUEUE, HF_O_LOCAL, NULL);
        r->outcome.overrun = overrun;
        hf_shard_note_overrun(s, overrun);
        hf_shard_report(s, r, now);
        return;
    }
    requeue(s, r, true, now); /* the back-off is over */
}

/* Takes a request that does not run out of where it waits. */
static void pull(hf_shard *s, hf_request *r, int64_t now) {
    if (r->state == HF_R_QUEUED) {
        hf_schedule_remove(&s->schedule, r, now);
    } else {
        leave_policy(s, r);
    }
}

bool hf_shard_cancel(hf_shard *s, uint64_t seq, int64_t now) {
    hf_request *r = hf_held_find(&s->held, seq);
    if (r == NULL || r->state == HF_R_PARKED) {
        return false;
    }
    r->cancelled = true;
    if (r->state == HF_R_RUNNING) {
        return true;
    }
    if (r->provisional) {
        report_unchecked(s, r, now);
        return false;
    }
    pull(s, r, now);
    hf_outcome_set(&r->outcome, HF_T_CANCELLED, HF_P_QUEUE, HF_O_LOCAL, NULL);
    hf_shard_report(s, r, now);
    return false;
}

/* Ends admission: the backlog is dropped, what waits for policy keeps its outcome. */
void hf_shard_end_admission(hf_shard *s, int64_t now) {
    hf_request *r;
    while ((r = hf_schedule_any(&s->schedule)) != NULL) {
        hf_schedule_remove(&s->schedule, r, now);
        if (r->is_ticket) {
            hf_shard_answer_ticket(s, r, HF_T_SHUTDOWN, now);
        } else {
            hf_shard_drop(s, r, now);
        }
    }
    for (uint32_t i = 0; i < s->held.size; i++) {
        hf_request *next;
        for (r = s->held.at[i]; r != NULL; r = next) {
            next = r->same;
            if (r->state == HF_R_JUDGED && r->provisional) {
                report_unchecked(s, r, now);
            } else if (r->state == HF_R_JUDGED || r->state == HF_R_BACKOFF) {
                leave_policy(s, r);
                bool lacked =
                    hf_shortage_is(r->outcome.type) && r->state == HF_R_BACKOFF;
                if (lacked || r->hopping || r->n_attempts == 0) {
                    hf_shard_drop(s, r, now); /* no attempt was made to its end */
                } else {
                    deny_for_stop(s, r);
                    hf_shard_report(s, r, now);
                }
            }
        }
    }
}
