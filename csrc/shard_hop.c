#include "shard_hop.h"

#include <stdlib.h>
#include <string.h>

static void hand_over(hf_shard *to, hf_ticket *t) {
    hf_requests list = {NULL, NULL, 0};
    hf_requests_append(&list, &t->stand_in);
    hf_shard_post(to, &list);
}

/* --- the shard of the request ------------------------------------------------------
 */

/* The hop that has just ended, as its host sees it: a redirect is an answer. */
static hf_pace_end end_of_hop(const hf_request *r, int64_t now) {
    return (hf_pace_end){.type = HF_T_NONE,
                         .origin = HF_O_SITE,
                         .status = r->response->hops[r->response->n_hops - 1].status,
                         .elapsed = now - r->hop_start,
                         .via_proxy = r->proxy_shown != NULL};
}

bool hf_shard_stays(hf_shard *s, hf_request *r, int64_t now) {
    const hf_url *url = hf_request_url(r);
    const hf_host *h = r->host;
    bool same = h->key_len == url->hostport_len &&
                memcmp(h->key, url->hostport, url->hostport_len) == 0;
    if (!same || r->ticket != NULL || s->settings->c.ask_hops) {
        return false;
    }
    hf_pace_end end = end_of_hop(r, now);
    bool stays = hf_schedule_again(&s->schedule, r, &end, now);
    r->hop_start = stays ? now : r->hop_start;
    return stays;
}

void hf_shard_leave(hf_shard *s, hf_request *r, int64_t now) {
    hf_pace_end end = end_of_hop(r, now);
    hf_shard_land(s, r, &end, now);
    r->hopping = true;
    r->hop_left = now;
    r->spent = now - r->attempt_start;
    if (r->exit >= 0) {
        r->exit_taken = hf_exits_rest(&s->shared->exits, r->exit, end.elapsed, now);
        s->exits_at = 0; /* it may be free now */
    }
    hf_response_new_hop(r->response);
    if (s->stopping) {
        hf_shard_drop(s, r, now);
    } else if (s->settings->c.ask_hops) {
        hf_shard_judge(s, r, now);
    } else {
        hf_shard_place(s, r, now);
    }
}

static hf_ticket *new_ticket(hf_shard *s, hf_shard *owner, const hf_request *r) {
    const hf_url *url = hf_request_url(r);
    hf_ticket *t = calloc(1, sizeof *t + url->hostport_len + 1);
    if (t == NULL) {
        return NULL;
    }
    memcpy(t->key, url->hostport, url->hostport_len);
    t->home = s;
    t->owner = owner;
    t->stand_in.is_ticket = true;
    t->stand_in.seq = r->seq;
    t->stand_in.attempts = &t->stand_in.first;
    t->stand_in.n_attempts = r->n_attempts > 0; /* all that the host's pace asks */
    t->stand_in.url.hostport = t->key;
    t->stand_in.url.hostport_len = url->hostport_len;
    return t;
}

static void refuse(hf_shard *s, hf_request *r, int32_t type, int64_t now) {
    hf_outcome_set(&r->outcome, type, HF_P_QUEUE, HF_O_LOCAL, NULL);
    hf_shard_report(s, r, now);
}

void hf_shard_place(hf_shard *s, hf_request *r, int64_t now) {
    const hf_url *url = hf_request_url(r);
    hf_shared *sh = s->shared;
    hf_shard *owner = &sh->shards[hf_shard_of(sh, url->hostport, url->hostport_len)];
    hf_heap_set(&s->heap, &r->due, r->job_due);
    if (owner == s) {
        s->exits_at = 0; /* it needs none */
        if (hf_shard_reserve(s) != 0 ||
            hf_schedule_push(&s->schedule, r, true, now) != 0) {
            refuse(s, r, HF_T_OUT_OF_MEMORY, now);
        }
        return;
    }
    r->ticket = new_ticket(s, owner, r);
    if (r->ticket == NULL) {
        refuse(s, r, HF_T_OUT_OF_MEMORY, now);
        return;
    }
    r->state = HF_R_BACKOFF;
    hf_stat_add(&s->counts.policy, 1);
    hand_over(owner, r->ticket);
}

void hf_shard_return_ticket(hf_request *r, const hf_pace_end *end) {
    hf_ticket *t = r->ticket;
    r->ticket = NULL;
    r->lent = false;
    t->over = true;
    t->end = *end;
    hand_over(t->owner, t);
}

void hf_shard_end_hop(hf_shard *s, hf_request *r, int64_t now) {
    const hf_pace_end unasked = {.type = HF_T_CANCELLED, .origin = HF_O_LOCAL};
    r->hopping = false;
    r->wait += now - r->hop_left;
    hf_request_note_attempt(r, 0, r->spent, r->proxy_shown);
    if (r->exit >= 0 && r->exit_taken) {
        hf_exits_end(&s->shared->exits, r->exit, HF_EXIT_NO_NEWS, 0, now);
        s->exits_at = 0; /* it may be free now */
    }
    if (r->lent) {
        hf_shard_return_ticket(r, &unasked);
    } else if (r->ticket != NULL) {
        /* Pairs with the load in answer_ticket, whose thread may free it from here on.
         */
        hf_store(&r->ticket->withdrawn, 1, HF_RELEASE);
        r->ticket = NULL;
    }
}

/* A ticket is back: its request goes into the queue here, to which no limits apply. */
static void come_home(hf_shard *s, hf_ticket *t, int64_t now) {
    hf_request *r = hf_held_find(&s->held, t->stand_in.seq);
    if (r == NULL || r->ticket != t) {
        /* It has ended meanwhile. */
        if (t->granted) {
            t->over = true;
            t->end = (hf_pace_end){.type = HF_T_CANCELLED, .origin = HF_O_LOCAL};
            hand_over(t->owner, t);
        } else {
            hf_request_free(&t->stand_in);
        }
        return;
    }
    hf_stat_add(&s->counts.policy, (uint64_t)-1);
    if (!t->granted) {
        int32_t type = t->refused;
        r->ticket = NULL;
        hf_request_free(&t->stand_in);
        if (type == HF_T_SHUTDOWN) {
            hf_shard_drop(s, r, now);
        } else {
            refuse(s, r, type, now);
        }
        return;
    }
    r->lent = true;
    const hf_url *url = hf_request_url(r);
    if (hf_shard_reserve(s) != 0 ||
        hf_schedule_guest(&s->schedule, url->hostport, url->hostport_len, now) ==
            NULL ||
        hf_schedule_push(&s->schedule, r, true, now) != 0) {
        refuse(s, r, HF_T_OUT_OF_MEMORY, now);
    }
}

/* --- the shard of the host ---------------------------------------------------------
 */

void hf_shard_answer_ticket(hf_shard *s, hf_request *stand_in, int32_t refused,
                            int64_t now) {
    hf_ticket *t = (hf_ticket *)stand_in;
    /* Pairs with the store in end_hop. */
    bool withdrawn = hf_load(&t->withdrawn, HF_ACQUIRE) != 0;
    t->granted = refused == 0;
    t->refused = refused;
    if (withdrawn && t->granted) {
        hf_schedule_unpop(&s->schedule, stand_in, now);
        hf_schedule_remove(&s->schedule, stand_in, now);
    }
    if (withdrawn) {
        hf_request_free(stand_in);
        return;
    }
    if (t->granted) {
        t->host_requests = stand_in->host->pace.requests;
    }
    hand_over(t->home, t);
}

static void end_flight(hf_shard *s, hf_ticket *t, int64_t now) {
    hf_shard_leave_host(s, &t->stand_in, &t->end, now);
    hf_request_free(&t->stand_in);
}

void hf_shard_ticket(hf_shard *s, hf_request *stand_in, int64_t now) {
    hf_ticket *t = (hf_ticket *)stand_in;
    if (t->home == s) {
        come_home(s, t, now);
    } else if (t->over) {
        end_flight(s, t, now);
    } else if (s->stopping) {
        hf_shard_answer_ticket(s, stand_in, HF_T_SHUTDOWN, now);
    } else if (hf_shard_reserve(s) != 0 ||
               hf_schedule_push(&s->schedule, stand_in, true, now) != 0) {
        hf_shard_answer_ticket(s, stand_in, HF_T_OUT_OF_MEMORY, now);
    }
}

void hf_shard_free_tickets(hf_shard *s) {
    hf_request *r;
    while ((r = hf_schedule_any(&s->schedule)) != NULL) {
        hf_schedule_remove(&s->schedule, r, 0);
        if (r->is_ticket) {
            hf_request_free(r);
        }
    }
}
