/* The record of a request, or none: the last step of each. */
#include <stdlib.h>
#include <string.h>

#include "shard_hop.h"

/* Bodies above this are encoded one an iteration: tens of milliseconds each, which no
 * deadline shall wait for more than once. */
#define HEAVY ((size_t)1 << 20)

/* Responses kept for reuse. */
#define SPARE_RESPONSES 512

/* --- responses ---------------------------------------------------------------------
 */

hf_response *hf_shard_response(hf_shard *s) {
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

static void free_response(hf_response *resp) {
    if (resp != NULL) {
        hf_response_free(resp);
        free(resp);
    }
}

void hf_shard_recycle(hf_shard *s, hf_response *resp) {
    if (resp == NULL) {
        return;
    }
    hf_spares_take(&s->spares, &resp->body);
    if (s->n_spare >= SPARE_RESPONSES) {
        free_response(resp);
        return;
    }
    hf_response_reset(resp, HF_KEEP_BYTES);
    resp->next = s->spare;
    s->spare = resp;
    s->n_spare++;
}

void hf_shard_free_responses(hf_shard *s) {
    while (s->spare != NULL) {
        hf_response *next = s->spare->next;
        free_response(s->spare);
        s->spare = next;
    }
    hf_spares_free(&s->spares);
}

/* --- records -----------------------------------------------------------------------
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

/* Lets go of a request whose record is out, or that gets none. */
static void dispose(hf_shard *s, hf_request *r) {
    s->answered++;
    s->answered_charge += r->charge;
    hf_held_remove(&s->held, r);
    hf_shard_recycle(s, r->response);
    if (r->leaked) {
        hf_requests_append(&s->orphans, r);
    } else {
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

static void await_content(hf_shard *s, hf_request *r) {
    r->state = HF_R_JUDGED;
    hf_heap_set(&s->heap, &r->due, r->job_due);
    hf_stat_add(&s->counts.policy, 1);
    /* The next record has to be claimed anew; until then the shard's owner has it. */
    hf_store(&r->claimed, 0, HF_RELEASE);
}

/* Tries to put the record out. Memory that is short is not worth losing a record for:
 * the body goes first, and what then does not fit waits. */
static bool emit(hf_shard *s, hf_request *r, int64_t now) {
    r->provisional &= !s->stopping; /* a stop may have come while it was parked */
    int rc = write_record(s, r, now);
    if (rc == HF_ENOMEM && r->response != NULL) {
        hf_shard_recycle(s, r->response);
        r->response = NULL;
        hf_outcome_set(&r->outcome, HF_T_OUT_OF_MEMORY, r->outcome.phase, HF_O_LOCAL,
                       NULL);
        rc = write_record(s, r, now);
    }
    if (rc != 0) {
        return false;
    }
    if (r->provisional) {
        await_content(s, r);
    } else {
        count_record(s, r);
        dispose(s, r);
    }
    return true;
}

void hf_shard_settle(hf_shard *s, hf_request *r) {
    hf_heap_remove(&s->heap, &r->due);
    count_record(s, r);
    dispose(s, r);
}

/* Whether the caller looks at what came before it counts as the answer. */
static bool is_provisional(const hf_shard *s, const hf_request *r) {
    return s->settings->c.validate && r->outcome.type == HF_T_NONE && !r->checked &&
           r->denied[0] == '\0' && !r->cancelled && !s->stopping;
}

static size_t body_len(const hf_request *r) {
    return r->response != NULL ? r->response->body.len : 0;
}

/* Lets r wait for room in the ring; at the front when it was there, so that the order
 * of ending is kept. */
static void park(hf_shard *s, hf_request *r, bool front) {
    if (front || s->parked.first == NULL) {
        s->parked_out = hf_stat_read(&s->ring.bytes_out);
    }
    r->state = HF_R_PARKED;
    if (!front || s->parked.first == NULL) {
        hf_requests_append(&s->parked, r);
        return;
    }
    r->prev = NULL;
    r->next = s->parked.first;
    r->next->prev = r;
    s->parked.first = r;
    s->parked.n++;
}

void hf_shard_report(hf_shard *s, hf_request *r, int64_t now) {
    if (r->hopping) {
        hf_shard_end_hop(s, r, now);
    }
    hf_heap_remove(&s->heap, &r->due);
    if (!hf_request_claim(r)) {
        return; /* the watchdog has reported it; its memory is the old loop's */
    }
    r->provisional = is_provisional(s, r);
    if (body_len(r) > HEAVY) {
        r->state = HF_R_PARKED;
        hf_requests_append(&s->heavy, r);
        return;
    }
    if (s->parked.first == NULL && emit(s, r, now)) {
        return;
    }
    hf_stat_add(&s->counts.ring_full, 1);
    park(s, r, false);
}

/* Encoding is work that a full ring makes vain: it waits until the consumer has taken
 * about as much as the record will need, and something in any case, for else the loop
 * would try without end. */
static bool may_fit(const hf_shard *s, const hf_request *r) {
    uint64_t need = body_len(r) + (r->response != NULL ? r->response->head.len : 0) + 1;
    uint64_t most = s->ring.capacity / 2;
    uint64_t taken = hf_stat_read(&s->ring.bytes_out) - s->parked_out;
    return taken >= (need < most ? need : most) || hf_ring_used(&s->ring) == 0;
}

bool hf_shard_may_unpark(const hf_shard *s) {
    return s->parked.first != NULL ? may_fit(s, s->parked.first)
                                   : s->heavy.first != NULL;
}

void hf_shard_unpark(hf_shard *s, int64_t now) {
    size_t done = 0;
    while (done <= HEAVY && hf_shard_may_unpark(s)) {
        hf_request *r =
            hf_requests_take(s->parked.first != NULL ? &s->parked : &s->heavy);
        done += body_len(r);
        if (!emit(s, r, now)) {
            park(s, r, true);
            return;
        }
    }
}

void hf_shard_drop(hf_shard *s, hf_request *r, int64_t now) {
    if (s->settings->c.report_unanswered) {
        hf_outcome_set(&r->outcome, HF_T_SHUTDOWN, HF_P_QUEUE, HF_O_LOCAL, NULL);
        hf_shard_report(s, r, now);
        return;
    }
    if (r->hopping) {
        hf_shard_end_hop(s, r, now);
    }
    hf_heap_remove(&s->heap, &r->due);
    hf_stat_add(&s->counts.dropped, 1);
    dispose(s, r);
}
