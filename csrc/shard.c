#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "transfer.h"

/* Responses kept for reuse, and bytes that each may keep. */
#define SPARE_RESPONSES 512
#define KEEP_BYTES 65536
/* Outcomes that may wait for policy; past that, admission stops. */
#define EVENT_SLOTS 1024
/* us between two looks for an exit while none is free. */
#define EXIT_LOOK 50000
/* us that a refusal closes a gate for until policy has said how long. */
#define GATE_FIRST 500000
/* Bytes of a body that are searched for policy's patterns. */
#define MATCH_BYTES 65536

/* --- lists -------------------------------------------------------------------------
 */

void hf_requests_append(hf_requests *l, hf_request *r) {
    r->next = NULL;
    r->prev = l->last;
    if (l->last != NULL) {
        l->last->next = r;
    } else {
        l->first = r;
    }
    l->last = r;
    l->n++;
}

void hf_requests_remove(hf_requests *l, hf_request *r) {
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        l->first = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        l->last = r->prev;
    }
    r->next = r->prev = NULL;
    l->n--;
}

hf_request *hf_requests_take(hf_requests *l) {
    hf_request *r = l->first;
    if (r != NULL) {
        hf_requests_remove(l, r);
    }
    return r;
}

/* --- table by seq ------------------------------------------------------------------
 */

static void table_grow(hf_shard *s) {
    uint32_t n = s->n_by_seq * 2;
    hf_request **table = calloc(n, sizeof(hf_request *));
    if (table == NULL) {
        return; /* longer chains, nothing worse */
    }
    for (uint32_t i = 0; i < s->n_by_seq; i++) {
        while (s->by_seq[i] != NULL) {
            hf_request *r = s->by_seq[i];
            s->by_seq[i] = r->same;
            r->same = table[r->seq & (n - 1)];
            table[r->seq & (n - 1)] = r;
        }
    }
    free(s->by_seq);
    s->by_seq = table;
    s->n_by_seq = n;
}

static void table_add(hf_shard *s, hf_request *r) {
    if (s->held >= s->n_by_seq) {
        table_grow(s);
    }
    hf_request **bucket = &s->by_seq[r->seq & (s->n_by_seq - 1)];
    r->same = *bucket;
    *bucket = r;
    s->held++;
}

static hf_request *table_find(const hf_shard *s, uint64_t seq) {
    hf_request *r = s->by_seq[seq & (s->n_by_seq - 1)];
    while (r != NULL && r->seq != seq) {
        r = r->same;
    }
    return r;
}

static void table_remove(hf_shard *s, hf_request *r) {
    hf_request **at = &s->by_seq[r->seq & (s->n_by_seq - 1)];
    while (*at != NULL && *at != r) {
        at = &(*at)->same;
    }
    if (*at == r) {
        *at = r->same;
        s->held--;
    }
}

/* --- life --------------------------------------------------------------------------
 */

static int init_parts(hf_shard *s, hf_errbuf err) {
    const hf_config *c = &s->settings->c;
    hf_shared *sh = s->shared;
    s->n_by_seq = 1024;
    s->by_seq = calloc(s->n_by_seq, sizeof(hf_request *));
    if (s->by_seq == NULL || hf_schedule_init(&s->schedule, c, &s->heap) != 0 ||
        hf_encoder_init(&s->encoder, s->settings) != 0) {
        return hf_fail(err, HF_ENOMEM, "no memory for a shard");
    }
    int rc = hf_wake_init(&s->wake, err);
    if (rc == 0) {
        rc = hf_ring_init(&s->ring, (size_t)c->ring_bytes, &sh->output, &s->wake, err);
    }
    if (rc == 0) {
        rc = hf_slots_init(&s->events, sizeof(hf_event), EVENT_SLOTS, &sh->policy,
                           &s->wake, err);
    }
    return rc;
}

int hf_shard_init(hf_shard *s, hf_shared *shared, int32_t number, hf_errbuf err) {
    memset(s, 0, sizeof *s);
    s->shared = shared;
    s->settings = shared->settings;
    s->number = number;
    s->stop_at = HF_NEVER;
    s->inbox.stop_at = HF_NEVER;
    s->wake.fd = -1;
    pthread_mutex_init(&s->inbox.lock, NULL);
    int rc = init_parts(s, err);
    if (rc != 0) {
        hf_shard_free(s);
    }
    return rc;
}

static void free_response(hf_response *resp) {
    if (resp != NULL) {
        hf_response_free(resp);
        free(resp);
    }
}

static void free_held(hf_shard *s) {
    for (uint32_t i = 0; s->by_seq != NULL && i < s->n_by_seq; i++) {
        while (s->by_seq[i] != NULL) {
            hf_request *r = s->by_seq[i];
            s->by_seq[i] = r->same;
            free_response(r->response);
            hf_request_free(r);
        }
    }
    free(s->by_seq);
}

void hf_shard_free(hf_shard *s) {
    hf_request *r;
    while ((r = hf_requests_take(&s->inbox.submitted)) != NULL) {
        hf_request_free(r);
    }
    free_held(s);
    while (s->spare != NULL) {
        hf_response *next = s->spare->next;
        free_response(s->spare);
        s->spare = next;
    }
    free(s->inbox.verdicts);
    free(s->inbox.cancels);
    free(s->inbox.orders);
    hf_heap_free(&s->heap);
    hf_heap_free(&s->hards);
    hf_schedule_free(&s->schedule);
    hf_encoder_free(&s->encoder);
    hf_slots_free(&s->events);
    hf_ring_free(&s->ring);
    if (s->wake.fd >= 0) {
        hf_wake_free(&s->wake);
    }
    pthread_mutex_destroy(&s->inbox.lock);
    memset(s, 0, sizeof *s);
}

/* --- inbox -------------------------------------------------------------------------
 */

static void join(hf_requests *to, hf_requests *from) {
    if (from->first == NULL) {
        return;
    }
    if (to->last != NULL) {
        to->last->next = from->first;
        from->first->prev = to->last;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    to->n += from->n;
    *from = (hf_requests){NULL, NULL, 0};
}

void hf_shard_post(hf_shard *s, hf_requests *list) {
    if (list->first == NULL) {
        return;
    }
    pthread_mutex_lock(&s->inbox.lock);
    join(&s->inbox.submitted, list);
    pthread_mutex_unlock(&s->inbox.lock);
    hf_wake_notify(&s->wake);
}

static int reserve(void **array, int32_t *cap, int32_t need, size_t size) {
    if (need <= *cap) {
        return 0;
    }
    int32_t n = *cap < 16 ? 16 : *cap;
    while (n < need) {
        n *= 2;
    }
    void *p = realloc(*array, (size_t)n * size);
    if (p == NULL) {
        return HF_ENOMEM;
    }
    *array = p;
    *cap = n;
    return 0;
}

int hf_shard_post_verdicts(hf_shard *s, const hf_verdict *v, int n) {
    hf_inbox *in = &s->inbox;
    pthread_mutex_lock(&in->lock);
    int rc = reserve((void **)&in->verdicts, &in->cap_verdicts, in->n_verdicts + n,
                     sizeof *v);
    if (rc == 0) {
        memcpy(in->verdicts + in->n_verdicts, v, (size_t)n * sizeof *v);
        in->n_verdicts += n;
    }
    pthread_mutex_unlock(&in->lock);
    hf_wake_notify(&s->wake);
    return rc;
}

int hf_shard_post_cancel(hf_shard *s, uint64_t seq) {
    hf_inbox *in = &s->inbox;
    pthread_mutex_lock(&in->lock);
    int rc =
        reserve((void **)&in->cancels, &in->cap_cancels, in->n_cancels + 1, sizeof seq);
    if (rc == 0) {
        in->cancels[in->n_cancels++] = seq;
    }
    pthread_mutex_unlock(&in->lock);
    hf_wake_notify(&s->wake);
    return rc;
}

int hf_shard_post_order(hf_shard *s, const hf_order *order) {
    hf_inbox *in = &s->inbox;
    pthread_mutex_lock(&in->lock);
    int rc =
        reserve((void **)&in->orders, &in->cap_orders, in->n_orders + 1, sizeof *order);
    if (rc == 0) {
        in->orders[in->n_orders++] = *order;
    }
    pthread_mutex_unlock(&in->lock);
    hf_wake_notify(&s->wake);
    return rc;
}

void hf_shard_post_stop(hf_shard *s, int64_t stop_at) {
    pthread_mutex_lock(&s->inbox.lock);
    if (stop_at < s->inbox.stop_at) {
        s->inbox.stop_at = stop_at;
    }
    pthread_mutex_unlock(&s->inbox.lock);
    hf_wake_notify(&s->wake);
}

/* --- reporting ---------------------------------------------------------------------
 */

static void count_record(hf_shard *s, const hf_request *r) {
    hf_counts *c = &s->counts;
    const hf_response *resp = r->response;
    int status = resp != NULL ? resp->status : 0;
    hf_stat_add(&c->records, 1);
    hf_stat_add(&c->by_class[status >= 100 && status < 600 ? status / 100 : 0], 1);
    hf_stat_add(&c->by_type[r->outcome.type], 1);
    if (resp != NULL) {
        hf_stat_add(&c->bytes_wire, resp->wire_size);
        hf_stat_add(&c->bytes_body, resp->body.len);
    }
}

static void recycle(hf_shard *s, hf_response *resp) {
    if (resp == NULL) {
        return;
    }
    if (s->n_spare >= SPARE_RESPONSES) {
        free_response(resp);
        return;
    }
    hf_response_reset(resp, KEEP_BYTES);
    resp->next = s->spare;
    s->spare = resp;
    s->n_spare++;
}

/* Lets go of a request whose record is out, or that gets none. */
static void dispose(hf_shard *s, hf_request *r) {
    s->answered++;
    s->answered_charge += r->charge;
    table_remove(s, r);
    recycle(s, r->response);
    if (!r->leaked) {
        hf_request_free(r);
    }
}

static int write_record(hf_shard *s, const hf_request *r, int64_t now) {
    const hf_settings *st = s->settings;
    char name[64];
    hf_facts facts = {.proxy = r->proxy_shown, .impersonate = NULL, .now = now};
    if (r->impersonate.p != NULL && r->impersonate.n < sizeof name) {
        memcpy(name, r->impersonate.p, r->impersonate.n);
        name[r->impersonate.n] = '\0';
        facts.impersonate = name;
    } else if (st->c.impersonate[0] != '\0') {
        facts.impersonate = st->c.impersonate;
    }
    return hf_record_write(&s->encoder, &s->ring, r, r->response, &facts);
}

/* Tries to put the record out. Memory that is short is not worth losing a record for:
 * the body goes first, and what then does not fit waits. */
static bool emit(hf_shard *s, hf_request *r, int64_t now) {
    int rc = write_record(s, r, now);
    if (rc == HF_ENOMEM && r->response != NULL) {
        recycle(s, r->response);
        r->response = NULL;
        hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, r->outcome.phase, HF_O_LOCAL,
                       NULL);
        rc = write_record(s, r, now);
    }
    if (rc != 0) {
        return false;
    }
    count_record(s, r);
    dispose(s, r);
    return true;
}

void hf_shard_report(hf_shard *s, hf_request *r, int64_t now) {
    hf_heap_remove(&s->heap, &r->due);
    if (!hf_request_claim(r)) {
        return; /* the watchdog has reported it; its memory is the old loop's */
    }
    if (s->parked.first == NULL && emit(s, r, now)) {
        return;
    }
    r->state = HF_R_PARKED;
    hf_requests_append(&s->parked, r);
    hf_stat_add(&s->counts.ring_full, 1);
}

void hf_shard_unpark(hf_shard *s, int64_t now) {
    while (s->parked.first != NULL) {
        hf_request *r = s->parked.first;
        hf_requests_remove(&s->parked, r);
        if (!emit(s, r, now)) {
            /* Back to the front: the order of ending is kept. */
            r->next = s->parked.first;
            r->prev = NULL;
            if (r->next != NULL) {
                r->next->prev = r;
            } else {
                s->parked.last = r;
            }
            s->parked.first = r;
            s->parked.n++;
            return;
        }
    }
}

static void drop(hf_shard *s, hf_request *r, int64_t now) {
    if (s->settings->c.report_unanswered) {
        hf_outcome_set(&r->outcome, HF_T_SHUTDOWN, HF_P_QUEUE, HF_O_LOCAL, NULL);
        hf_shard_report(s, r, now);
        return;
    }
    hf_heap_remove(&s->heap, &r->due);
    hf_stat_add(&s->counts.dropped, 1);
    dispose(s, r);
}

/* --- admission ---------------------------------------------------------------------
 */

static void file_request(hf_shard *s, hf_request *r, int64_t now) {
    table_add(s, r);
    if (hf_request_invalid(r)) {
        hf_shard_report(s, r, now);
        return;
    }
    if (s->stopping) {
        drop(s, r, now);
        return;
    }
    if (r->limits.job > 0) {
        r->job_due = r->accepted + r->limits.job;
        hf_heap_set(&s->heap, &r->due, r->job_due);
    }
    if (hf_schedule_push(&s->schedule, r, false, now) != 0) {
        hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, HF_P_QUEUE, HF_O_LOCAL, NULL);
        hf_shard_report(s, r, now);
    }
}

static bool take_slot(hf_shard *s) {
    hf_shared *sh = s->shared;
    uint64_t most = (uint64_t)s->settings->c.max_concurrency;
    if (hf_add(&sh->in_flight, 1, HF_SEQ_CST) < most) {
        return true;
    }
    hf_add(&sh->in_flight, (uint64_t)-1, HF_SEQ_CST);
    /* Say so, then look again: pairs with give_slot, which counts first and looks at
     * starving then. */
    hf_store(&sh->starving, 1, HF_SEQ_CST);
    if (hf_add(&sh->in_flight, 1, HF_SEQ_CST) < most) {
        return true;
    }
    hf_add(&sh->in_flight, (uint64_t)-1, HF_SEQ_CST);
    return false;
}

static void give_slot(hf_shard *s) {
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

static hf_response *take_response(hf_shard *s) {
    hf_response *resp = s->spare;
    if (resp != NULL) {
        s->spare = resp->next;
        s->n_spare--;
        return resp;
    }
    resp = malloc(sizeof *resp);
    if (resp != NULL) {
        const hf_config *c = &s->settings->c;
        hf_response_init(resp, c->max_headers, c->max_body);
    }
    return resp;
}

static bool may_admit(const hf_shard *s) {
    return !s->stopping && s->parked.first == NULL && s->unjudged.first == NULL &&
           hf_load(&s->shared->paused, HF_ACQUIRE) == 0;
}

/* The next request whose host lets it start; those that it refuses get their record. */
static hf_request *pop(hf_shard *s, int64_t now) {
    bool refused;
    hf_request *r;
    while ((r = hf_schedule_pop(&s->schedule, now, &refused)) != NULL && refused) {
        hf_outcome_set(&r->outcome, HF_T_HOST_UNAVAILABLE, HF_P_QUEUE, HF_O_LOCAL,
                       NULL);
        hf_shard_report(s, r, now);
        if (s->parked.first != NULL) {
            return NULL;
        }
    }
    return r;
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
    if (r->proxy.p != NULL || !hf_exits_active(x)) {
        return true;
    }
    if (r->next_proxy != NULL && r->exit >= 0) {
        hf_exits_start(x, r->exit);
        return true;
    }
    if (hf_exits_pick(x, r->session.p, r->session.n, now, &pick) != 0) {
        return lack_exit(s, r, pick.until, now);
    }
    s->no_exit_since = s->exits_at = 0;
    free(r->next_proxy);
    r->next_proxy = strdup(pick.url);
    r->exit = pick.number;
    r->exit_probe = pick.probe;
    if (r->next_proxy == NULL) {
        hf_exits_end(x, pick.number, false, 0, now);
        r->exit = -1;
        return lack_exit(s, r, now, now);
    }
    return true;
}

hf_request *hf_shard_next(hf_shard *s, int64_t now) {
    if (s->schedule.ready.first == NULL || !may_admit(s) || now < s->exits_at ||
        !take_slot(s)) {
        return NULL;
    }
    hf_request *r = pop(s, now);
    while (r != NULL && !find_exit(s, r, now)) {
        r = s->exits_at > now ? NULL : pop(s, now);
    }
    if (r == NULL) {
        give_slot(s);
        return NULL;
    }
    if (r->response == NULL) {
        r->response = take_response(s);
    }
    if (r->response == NULL) {
        hf_schedule_unpop(&s->schedule, r, now);
        give_slot(s);
        return NULL;
    }
    if (r->first_start == 0) {
        r->first_start = now;
    }
    r->attempt_start = now;
    r->state = HF_R_RUNNING;
    hf_requests_append(&s->running, r);
    hf_heap_set(&s->hards, &r->hard, now + r->limits.hard);
    hf_stat_add(&s->counts.started, 1);
    return r;
}

/* --- ending an attempt -------------------------------------------------------------
 */

static bool policy_wants(const hf_shard *s, const hf_request *r) {
    const hf_config *c = &s->settings->c;
    int type = r->outcome.type;
    int status = r->response != NULL ? r->response->status : 0;
    if (s->stopping || r->cancelled) {
        return false;
    }
    if (type != HF_T_NONE) {
        return (c->retry_types >> type & 1) != 0;
    }
    if (r->matched) {
        return true;
    }
    return status >= 0 && status < 600 &&
           (c->retry_statuses[status / 8] >> (status % 8) & 1) != 0;
}

static void fill_event(const hf_request *r, const char *host, int64_t now,
                       hf_event *ev) {
    memset(ev, 0, sizeof *ev);
    const hf_outcome *o = &r->outcome;
    const hf_response *resp = r->response;
    const hf_attempt *last = &r->attempts[r->n_attempts - 1];
    ev->seq = r->seq;
    ev->type = o->type;
    ev->phase = o->phase;
    ev->origin = o->origin;
    ev->status = resp != NULL ? resp->status : 0;
    ev->curl_code = o->curl_code;
    ev->attempt = r->n_attempts;
    ev->elapsed = last->elapsed;
    ev->since = now - r->accepted;
    ev->left = r->job_due == HF_NEVER ? -1 : r->job_due - now;
    ev->flags = (resp != NULL && resp->reused ? HF_EV_REUSED : 0) |
                (o->phase >= HF_P_SEND || o->type == HF_T_NONE ? HF_EV_SENT : 0) |
                (r->fresh ? HF_EV_FRESH : 0) | (r->grant.probe ? HF_EV_PROBE : 0) |
                (r->matched ? HF_EV_MATCHED : 0) | (r->host_alive ? HF_EV_ALIVE : 0);
    ev->proxy = r->exit;
    ev->host_requests = (int64_t)r->host_requests;
    size_t ns =
        r->session.n < sizeof ev->session - 1 ? r->session.n : sizeof ev->session - 1;
    if (ns > 0) {
        memcpy(ev->session, r->session.p, ns);
    }
    size_t n = strlen(host);
    n = n < sizeof ev->host - 1 ? n : sizeof ev->host - 1;
    memcpy(ev->host, host, n);
}

static bool idempotent(hf_slice m) {
    static const char *const names[] = {"GET", "HEAD",   "OPTIONS",
                                        "PUT", "DELETE", "TRACE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (m.n == strlen(names[i]) && memcmp(m.p, names[i], m.n) == 0) {
            return true;
        }
    }
    return false;
}

static size_t copy_range(const hf_response *resp, hf_range at, char *out, size_t cap) {
    size_t n = at.len < cap - 1 ? at.len : cap - 1;
    if (n > 0) {
        memcpy(out, resp->head.data + at.at, n);
    }
    out[n] = '\0';
    return n;
}

static bool ask_policy(hf_shard *s, hf_request *r, int flags, int64_t now) {
    hf_event ev;
    fill_event(r, r->url.hostport, now, &ev);
    ev.flags |= flags;
    if (idempotent(hf_request_method(s->settings, r))) {
        ev.flags |= HF_EV_IDEMPOTENT;
    }
    if (r->response != NULL) {
        copy_range(r->response, r->response->retry_after, ev.retry_after,
                   sizeof ev.retry_after);
        copy_range(r->response, r->response->date, ev.date, sizeof ev.date);
    }
    return hf_slots_push(&s->events, &ev) == 0;
}

static void judge(hf_shard *s, hf_request *r, int64_t now) {
    r->state = HF_R_JUDGED;
    hf_heap_set(&s->heap, &r->due, r->job_due);
    if (s->unjudged.first != NULL || !ask_policy(s, r, 0, now)) {
        hf_requests_append(&s->unjudged, r);
    }
    hf_stat_add(&s->counts.policy, 1);
}

static void ask_the_rest(hf_shard *s, int64_t now) {
    while (s->unjudged.first != NULL && ask_policy(s, s->unjudged.first, 0, now)) {
        hf_requests_take(&s->unjudged);
    }
}

/* Whether policy closes gates for this status: it asks to see it then. */
static bool is_gate(const hf_shard *s, int status) {
    const hf_config *c = &s->settings->c;
    return (status == 429 || status == 503) &&
           (c->retry_statuses[status / 8] >> (status % 8) & 1) != 0;
}

/* Ends the flight: host and engine may start another. */
static void land(hf_shard *s, hf_request *r, int64_t now) {
    hf_pace_end end = {.type = r->outcome.type,
                       .origin = r->outcome.origin,
                       .status = r->response != NULL ? r->response->status : 0,
                       .elapsed = now - r->attempt_start,
                       .via_proxy = r->proxy_shown != NULL};
    hf_requests_remove(&s->running, r);
    hf_heap_remove(&s->heap, &r->due);
    hf_heap_remove(&s->hards, &r->hard);
    if (r->exit >= 0) {
        hf_exits_end(&s->shared->exits, r->exit, end.type == HF_T_NONE, end.elapsed,
                     now);
    }
    r->host_alive = r->host->pace.last_ok > r->attempt_start;
    r->host_requests = r->host->pace.requests;
    if (end.type == HF_T_NONE && is_gate(s, end.status)) {
        hf_pace_close_gate(&r->host->pace, now + GATE_FIRST, now);
    }
    hf_schedule_landed(&s->schedule, r, &end, now);
    give_slot(s);
    r->transfer = NULL;
}

void hf_shard_abort(hf_shard *s, hf_request *r, int64_t now) {
    hf_outcome_set(&r->outcome, HF_T_SHUTDOWN, HF_P_QUEUE, HF_O_LOCAL, NULL);
    land(s, r, now);
    drop(s, r, now);
}

/* Whether the answer's body holds one of the texts that policy asks for. */
static bool matches(const hf_shard *s, const hf_request *r) {
    const hf_response *resp = r->response;
    const char *const *p = s->settings->c.body_patterns;
    if (p == NULL || resp == NULL || r->outcome.type != HF_T_NONE) {
        return false;
    }
    size_t n = resp->body.len < MATCH_BYTES ? resp->body.len : MATCH_BYTES;
    for (; *p != NULL; p++) {
        if (n > 0 && memmem(resp->body.data, n, *p, strlen(*p)) != NULL) {
            return true;
        }
    }
    return false;
}

void hf_shard_finish(hf_shard *s, hf_request *r, int64_t now) {
    land(s, r, now);
    int status = r->response != NULL ? r->response->status : 0;
    hf_request_note_attempt(r, status, now - r->attempt_start, r->proxy_shown);
    r->matched = matches(s, r);
    if (r->n_attempts > 0 && policy_wants(s, r)) {
        judge(s, r, now);
        return;
    }
    if (r->exit >= 0 && (r->exit_probe || r->n_attempts > 1)) {
        /* Good news heals an exit; when there is no room for it, the next will do. */
        ask_policy(s, r, HF_EV_NEWS, now);
    }
    hf_shard_report(s, r, now);
}

void hf_shard_lose(hf_shard *s, hf_request *r, int64_t now) {
    bool head_done = r->response != NULL && r->response->head_done;
    if (r->transfer != NULL) {
        /* The loop that wakes some day must find nothing of ours in its transfers. */
        r->transfer->req = NULL;
        r->transfer->resp = NULL;
        r->leaked = r->body.p != NULL; /* libcurl points to it */
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

static void leave_policy(hf_shard *s, hf_request *r) {
    for (hf_request *u = s->unjudged.first; u != NULL; u = u->next) {
        if (u == r) {
            hf_requests_remove(&s->unjudged, r);
            break;
        }
    }
    hf_stat_add(&s->counts.policy, (uint64_t)-1);
}

static void start_backoff(hf_shard *s, hf_request *r, const hf_verdict *v,
                          int64_t now) {
    free(r->next_proxy);
    r->next_proxy = v->proxy[0] != '\0' ? strdup(v->proxy) : NULL;
    r->exit = r->next_proxy != NULL ? v->exit : -1;
    r->exit_probe = false;
    r->fresh |= v->fresh != 0;
    r->wait = v->delay > 0 ? v->delay : 0;
    r->state = HF_R_BACKOFF;
    hf_stat_add(&s->counts.retries, 1);
    int64_t at = now + r->wait;
    hf_heap_set(&s->heap, &r->due, at < r->job_due ? at : r->job_due);
}

static void apply_verdict(hf_shard *s, const hf_verdict *v, int64_t now) {
    hf_request *r = table_find(s, v->seq);
    if (r == NULL || r->state != HF_R_JUDGED) {
        return;
    }
    if (v->retry && !s->stopping) {
        start_backoff(s, r, v, now);
        return;
    }
    leave_policy(s, r);
    memcpy(r->denied, v->denied, sizeof r->denied);
    r->denied[sizeof r->denied - 1] = '\0';
    hf_shard_report(s, r, now);
}

void hf_shard_due(hf_shard *s, hf_request *r, int64_t now) {
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
    /* The back-off is over. */
    hf_stat_add(&s->counts.policy, (uint64_t)-1);
    hf_heap_set(&s->heap, &r->due, r->job_due);
    hf_response_reset(r->response, KEEP_BYTES);
    if (hf_schedule_push(&s->schedule, r, true, now) != 0) {
        hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, HF_P_QUEUE, HF_O_LOCAL, NULL);
        hf_shard_report(s, r, now);
    }
}

/* Takes a request that does not run out of where it waits. */
static void pull(hf_shard *s, hf_request *r, int64_t now) {
    if (r->state == HF_R_QUEUED) {
        hf_schedule_remove(&s->schedule, r, now);
    } else {
        leave_policy(s, r);
    }
}

static bool cancel(hf_shard *s, uint64_t seq, int64_t now) {
    hf_request *r = table_find(s, seq);
    if (r == NULL || r->state == HF_R_PARKED) {
        return false;
    }
    r->cancelled = true;
    if (r->state == HF_R_RUNNING) {
        return true;
    }
    pull(s, r, now);
    hf_outcome_set(&r->outcome, HF_T_CANCELLED, HF_P_QUEUE, HF_O_LOCAL, NULL);
    hf_shard_report(s, r, now);
    return false;
}

/* Ends admission: the backlog is dropped, what waits for policy keeps its outcome. */
static void stop_waiting(hf_shard *s, int64_t now) {
    hf_request *r;
    while ((r = hf_schedule_any(&s->schedule)) != NULL) {
        hf_schedule_remove(&s->schedule, r, now);
        drop(s, r, now);
    }
    for (uint32_t i = 0; i < s->n_by_seq; i++) {
        hf_request *next;
        for (r = s->by_seq[i]; r != NULL; r = next) {
            next = r->same;
            if (r->state == HF_R_JUDGED || r->state == HF_R_BACKOFF) {
                leave_policy(s, r);
                hf_shard_report(s, r, now);
            }
        }
    }
}

static bool drain_cancels(hf_shard *s, const uint64_t *seqs, int32_t n, int64_t now) {
    bool running = false;
    for (int32_t i = 0; i < n; i++) {
        running |= cancel(s, seqs[i], now);
    }
    return running;
}

static void obey(hf_shard *s, const hf_order *o, int64_t now) {
    uint32_t n = (uint32_t)strnlen(o->host, sizeof o->host);
    hf_host *h = hf_schedule_host(&s->schedule, o->host, n, now);
    if (h == NULL) {
        return;
    }
    if (o->kind == HF_ORDER_GATE) {
        hf_pace_close_gate(&h->pace, now + o->value, now);
    } else {
        h->pace.host_delay = o->value;
    }
    hf_schedule_touch(&s->schedule, h);
}

bool hf_shard_take_inbox(hf_shard *s, int64_t now) {
    hf_inbox *in = &s->inbox;
    pthread_mutex_lock(&in->lock);
    hf_requests submitted = in->submitted;
    hf_verdict *verdicts = in->verdicts;
    uint64_t *cancels = in->cancels;
    hf_order *orders = in->orders;
    int32_t n_orders = in->n_orders;
    int32_t n_verdicts = in->n_verdicts;
    int32_t n_cancels = in->n_cancels;
    s->stop_at = in->stop_at;
    s->exits_at = 0; /* the table may have changed */
    in->submitted = (hf_requests){NULL, NULL, 0};
    in->verdicts = NULL;
    in->cancels = NULL;
    in->orders = NULL;
    in->n_orders = in->cap_orders = 0;
    in->n_verdicts = in->cap_verdicts = in->n_cancels = in->cap_cancels = 0;
    pthread_mutex_unlock(&in->lock);
    hf_request *r;
    while ((r = hf_requests_take(&submitted)) != NULL) {
        file_request(s, r, now);
    }
    for (int32_t i = 0; i < n_verdicts; i++) {
        apply_verdict(s, &verdicts[i], now);
    }
    for (int32_t i = 0; i < n_orders; i++) {
        obey(s, &orders[i], now);
    }
    bool running = drain_cancels(s, cancels, n_cancels, now);
    free(orders);
    free(verdicts);
    free(cancels);
    if (s->stop_at != HF_NEVER && !s->stopping) {
        s->stopping = true;
        stop_waiting(s, now);
    }
    ask_the_rest(s, now);
    return running;
}

/* --- the end of an iteration -------------------------------------------------------
 */

/* The feeder is woken for a quarter of the window, not for each place in it. */
static void notify_room(hf_shared *sh) {
    const hf_config *c = &sh->settings->c;
    if (hf_load(&sh->outstanding, HF_SEQ_CST) <= HF_LOW_WATER(c->window_requests) &&
        hf_load(&sh->charged, HF_SEQ_CST) <= HF_LOW_WATER(c->window_bytes)) {
        hf_wake_notify(&sh->room);
    }
}

void hf_shard_publish(hf_shard *s) {
    hf_shared *sh = s->shared;
    hf_counts *c = &s->counts;
    atomic_store_explicit(&c->queued, s->schedule.queued, memory_order_relaxed);
    atomic_store_explicit(&c->in_flight, s->running.n, memory_order_relaxed);
    atomic_store_explicit(&c->parked, s->parked.n, memory_order_relaxed);
    hf_ring_wake_consumer(&s->ring);
    hf_ring_wake_consumer(&s->events.ring);
    if (s->answered > 0) {
        hf_add(&sh->charged, (uint64_t)0 - s->answered_charge, HF_SEQ_CST);
        hf_add(&sh->outstanding, (uint64_t)0 - s->answered, HF_SEQ_CST);
        s->answered = 0;
        s->answered_charge = 0;
        notify_room(sh);
        if (hf_load(&sh->outstanding, HF_SEQ_CST) == 0) {
            hf_wake_notify(&sh->output); /* it may be the end */
            hf_wake_notify(&sh->policy);
        }
    }
}

void hf_shard_note_overrun(hf_shard *s, int64_t overrun) {
    uint64_t us = overrun > 0 ? (uint64_t)overrun : 0;
    int bucket = 0;
    while (bucket < 31 && us >= (uint64_t)1 << bucket) {
        bucket++;
    }
    hf_stat_add(&s->counts.deadlines_fired, 1);
    hf_stat_add(&s->counts.overrun[bucket], 1);
    if (us > hf_stat_read(&s->counts.overrun_max)) {
        atomic_store_explicit(&s->counts.overrun_max, us, memory_order_relaxed);
    }
}

bool hf_shard_idle(const hf_shard *s) {
    return s->held == 0;
}
