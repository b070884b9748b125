/* Policy's side of the engine: outcomes to judge, verdicts, and orders for hosts and
 * exits. Contracts: api.h.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "engine.h"

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
    int open = hf_engine_open(e);
    if (open != 0) {
        return open;
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
    if (rc == HF_EINTR || hf_engine_take_interrupt(&e->policy_interrupted)) {
        return HF_EINTR;
    }
    return no_more_events(e) ? HF_EEND : HF_EAGAIN;
}

void hf_event_clear(hf_event *event) {
    free(event->url);
    free(event->body);
    event->url = NULL;
    event->body = NULL;
}

int hf_engine_verdicts(hf_engine *e, const hf_verdict *verdicts, int n) {
    int rc = hf_engine_usable(e, (hf_errbuf){NULL, 0});
    /* Which shard holds a request is not known here; the others pass it over. */
    int32_t shards = n > 0 ? e->shared.n_shards : 0; /* news asks for no verdict */
    for (int32_t i = 0; rc == 0 && i < shards; i++) {
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
    int rc = hf_engine_usable(e, (hf_errbuf){NULL, 0});
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
    if (hf_engine_forked(e)) {
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
    if (hf_engine_forked(e)) {
        return HF_EFORK;
    }
    int64_t now = hf_now();
    hf_exits_avoid(&e->shared.exits, host, number, tier, now + wait, now);
    return 0;
}

int hf_engine_exit_stats(hf_engine *e, hf_exit_stats *out, int max) {
    return hf_engine_forked(e) ? HF_EFORK : hf_exits_stats(&e->shared.exits, out, max);
}
