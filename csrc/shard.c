#include "shard.h"

#include <string.h>

#include "shard_hop.h"

/* Outcomes that may wait for policy; past that, admission stops. */
#define EVENT_SLOTS 1024

/* --- life --------------------------------------------------------------------------
 */

static int init_parts(hf_shard *s, hf_errbuf err) {
    const hf_config *c = &s->settings->c;
    hf_shared *sh = s->shared;
    if (hf_held_init(&s->held) != 0 ||
        hf_schedule_init(&s->schedule, c, &s->heap) != 0 ||
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
    hf_shortage_init(&s->shortage);
    s->wake.fd = -1;
    hf_inbox_init(&s->inbox);
    int rc = init_parts(s, err);
    if (rc != 0) {
        hf_shard_free(s);
    }
    return rc;
}

static void free_held(hf_shard *s) {
    for (uint32_t i = 0; i < s->held.size; i++) {
        while (s->held.at[i] != NULL) {
            hf_request *r = s->held.at[i];
            hf_held_remove(&s->held, r);
            if (r->lent) {
                hf_request_free(&r->ticket->stand_in);
            }
            hf_shard_recycle(s, r->response);
            hf_request_free(r);
        }
    }
    hf_held_free(&s->held);
}

static void free_events(hf_shard *s) {
    hf_event ev;
    while (s->events.slot_size > 0 && hf_slots_pop(&s->events, &ev, 1) > 0) {
        hf_event_clear(&ev);
    }
    hf_slots_free(&s->events);
}

void hf_shard_free(hf_shard *s) {
    hf_request *r;
    hf_shard_free_tickets(s);
    free_held(s);
    while ((r = hf_requests_take(&s->orphans)) != NULL) {
        hf_request_free(r);
    }
    hf_shard_free_responses(s);
    hf_heap_free(&s->heap);
    hf_heap_free(&s->hards);
    hf_schedule_free(&s->schedule);
    hf_encoder_free(&s->encoder);
    free_events(s);
    hf_ring_free(&s->ring);
    if (s->wake.fd >= 0) {
        hf_wake_free(&s->wake);
    }
    hf_inbox_free(&s->inbox);
    memset(s, 0, sizeof *s);
}

/* --- inbox -------------------------------------------------------------------------
 */

void hf_shard_post(hf_shard *s, hf_requests *list) {
    if (list->first != NULL) {
        hf_inbox_submit(&s->inbox, list);
        hf_wake_notify(&s->wake);
    }
}

int hf_shard_post_verdicts(hf_shard *s, const hf_verdict *v, int n) {
    int rc = hf_inbox_verdicts(&s->inbox, v, n);
    hf_wake_notify(&s->wake);
    return rc;
}

int hf_shard_post_cancel(hf_shard *s, uint64_t seq) {
    int rc = hf_inbox_cancel(&s->inbox, seq);
    hf_wake_notify(&s->wake);
    return rc;
}

int hf_shard_post_order(hf_shard *s, const hf_order *order) {
    int rc = hf_inbox_order(&s->inbox, order);
    hf_wake_notify(&s->wake);
    return rc;
}

void hf_shard_post_stop(hf_shard *s, int64_t stop_at) {
    hf_inbox_stop(&s->inbox, stop_at);
    hf_wake_notify(&s->wake);
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

static void file_all(hf_shard *s, hf_requests *list, int64_t *now) {
    hf_request *r;
    while ((r = hf_requests_take(list)) != NULL) {
        *now = r->accepted > *now ? r->accepted : *now;
        if (r->is_ticket) {
            hf_shard_ticket(s, r, *now);
        } else {
            hf_shard_file(s, r, *now);
        }
    }
}

/* After the requests, which verdicts and cancels may be about. */
static bool apply(hf_shard *s, const hf_posted *in, int64_t now) {
    bool running = false;
    for (int32_t i = 0; i < in->n_verdicts; i++) {
        hf_shard_verdict(s, &in->verdicts[i], now);
    }
    for (int32_t i = 0; i < in->n_orders; i++) {
        obey(s, &in->orders[i], now);
    }
    for (int32_t i = 0; i < in->n_cancels; i++) {
        running |= hf_shard_cancel(s, in->cancels[i], now);
    }
    return running;
}

bool hf_shard_take_inbox(hf_shard *s, int64_t *now) {
    hf_posted in;
    hf_inbox_take(&s->inbox, &in);
    s->stop_at = in.stop_at;
    s->exits_at = 0; /* the table may have changed */
    s->schedule.asks_names =
        s->settings->c.proxy[0] == '\0' && !hf_exits_active(&s->shared->exits);
    file_all(s, &in.submitted, now);
    bool running = apply(s, &in, *now);
    hf_posted_free(&in);
    if (s->stop_at != HF_NEVER && !s->stopping) {
        s->stopping = true;
        hf_shard_end_admission(s, *now);
    }
    hf_shard_ask(s, *now);
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

/* Four buckets an octave, so that a quantile is at most a fifth too high. */
static int overrun_bucket(uint64_t us) {
    int octave = 0;
    while (octave < 31 && us >> (octave + 1) != 0) {
        octave++;
    }
    uint64_t quarter = us << 2 >> octave & 3;
    return octave * 4 + (int)quarter;
}

void hf_shard_note_overrun(hf_shard *s, int64_t overrun) {
    uint64_t us = overrun > 0 ? (uint64_t)overrun : 0;
    int bucket = overrun_bucket(us);
    hf_stat_add(&s->counts.deadlines_fired, 1);
    hf_stat_add(&s->counts.overrun[bucket], 1);
    if (us > hf_stat_read(&s->counts.overrun_max)) {
        atomic_store_explicit(&s->counts.overrun_max, us, memory_order_relaxed);
    }
}

bool hf_shard_idle(const hf_shard *s) {
    return s->held.n == 0;
}
