#include "attempt.h"

/* us between two times that idle connections are closed for want of descriptors. */
#define SHED_AGAIN 100000

/* --- calls into libcurl, each between two heart beats ------------------------------
 */

static bool call_add(hf_loop *l, hf_transfer *t) {
    hf_poller_look_at_rested(&l->poller);
    hf_heart_enter(&l->heart, "curl_multi_add_handle", l->now);
    int rc = l->curl->curl_multi_add_handle(t->lane->multi, t->easy);
    t->in_multi = rc == 0;
    t->added_at = t->lane->actions;
    return hf_loop_come_back(l);
}

static bool call_remove(hf_loop *l, hf_transfer *t) {
    hf_heart_enter(&l->heart, "curl_multi_remove_handle", l->now);
    l->curl->curl_multi_remove_handle(t->lane->multi, t->easy);
    t->in_multi = false;
    return hf_loop_come_back(l);
}

/* --- starting and ending attempts --------------------------------------------------
 */

static void set_due(hf_loop *l, hf_transfer *t) {
    int due;
    int64_t at = hf_transfer_next_due(t, &due);
    hf_heap_set(&l->shard->heap, &t->req->due, at);
}

/* Ends the attempt. Where descriptors or ports are short, idle connections give theirs
 * back. libcurl opens more than sockets (name servers, certificates) and does not tell
 * what it lacked, so a failure without a cause is looked into. */
static void finish(hf_loop *l, hf_request *r) {
    hf_outcome *o = &r->outcome;
    bool vague = o->type == HF_T_DNS_ERROR || o->type == HF_T_INTERNAL ||
                 o->type == HF_T_OUT_OF_MEMORY;
    if (vague && o->phase < HF_P_SEND && hf_shortage_of_descriptors()) {
        hf_outcome_set(o, HF_T_TOO_MANY_OPEN_FILES, o->phase, HF_O_LOCAL, NULL);
    }
    bool shed =
        hf_shortage_is(o->type) && l->now - l->shard->shortage.moved > SHED_AGAIN;
    if (!shed || hf_identity_shed(l)) {
        hf_shard_finish(l->shard, r, l->now);
    }
}

static void enter_lane(hf_transfer *t) {
    t->lane = hf_lane_choose(t->identity, t->req->host, t->url->tls);
    t->lane->busy++;
    t->identity->busy++;
    hf_lane_age_names(t);
}

static void leave_lane(hf_transfer *t) {
    int type = t->req->outcome.type;
    t->req->host->unnamed = type == HF_T_DNS_ERROR || type == HF_T_DNS_TIMEOUT;
    if (t->names_age) {
        t->lane->starts = 0;
        t->lane->aged = t->identity->loop->now;
    }
    t->lane->busy--;
    t->identity->busy--;
    t->identity->loop->freed++;
    if (t->idles) {
        hf_lane_warm(t->lane, t->req->host);
    }
}

/* The transfer is out of the multi and its request has its outcome. */
static void settle(hf_loop *l, hf_transfer *t) {
    hf_request *r = t->req;
    leave_lane(t);
    hf_transfer_rest(t);
    finish(l, r);
}

static void add(hf_loop *l, hf_transfer *t) {
    if (call_add(l, t) && !t->in_multi) {
        hf_transfer_abort(t, HF_T_INTERNAL, l->now);
        settle(l, t);
    }
}

static void fail_start(hf_loop *l, hf_request *r, int rc, const char *why) {
    if (rc == HF_EINVAL) {
        hf_outcome_set(&r->outcome, HF_T_INVALID_REQUEST, HF_P_QUEUE, HF_O_LOCAL, "%s",
                       why);
    } else {
        int type = rc == HF_ENOMEM ? HF_T_OUT_OF_MEMORY : HF_T_INTERNAL;
        hf_outcome_set(&r->outcome, type, HF_P_QUEUE, HF_O_LOCAL, NULL);
    }
    finish(l, r);
}

static int get_transfer(hf_loop *l, hf_request *r, hf_transfer **t, hf_errbuf err) {
    hf_identity *id;
    int rc = hf_identity_get(l, r, &id, err);
    if (rc != 0) {
        return rc;
    }
    *t = id->idle;
    if (*t != NULL) {
        id->idle = (*t)->next;
        return 0;
    }
    return hf_transfer_new(id, t, err);
}

void hf_attempt_start(hf_loop *l, hf_request *r) {
    char why[160] = "";
    hf_errbuf err = {why, sizeof why};
    hf_transfer *t = NULL;
    int rc = get_transfer(l, r, &t, err);
    if (l->lost) {
        return;
    }
    if (rc != 0) {
        fail_start(l, r, rc, why);
        return;
    }
    rc = hf_transfer_start(t, r, l->now);
    if (rc != 0) {
        hf_transfer_rest(t);
        fail_start(l, r, rc, "method is longer than 63 bytes");
        return;
    }
    enter_lane(t);
    set_due(l, t);
    add(l, t);
}

/* A redirect is to be followed: at once to the same host, if that may be asked again;
 * else the request waits for its turn there. */
static void hop(hf_loop *l, hf_transfer *t) {
    hf_request *r = t->req;
    if (!hf_shard_stays(l->shard, r, l->now)) {
        leave_lane(t);
        hf_transfer_rest(t);
        hf_shard_leave(l->shard, r, l->now);
        return;
    }
    if (hf_transfer_hop(t, l->now) != 0) {
        hf_transfer_abort(t, HF_T_OUT_OF_MEMORY, l->now);
        settle(l, t);
        return;
    }
    set_due(l, t);
    add(l, t);
}

void hf_attempt_done(hf_loop *l, hf_transfer *t, int code) {
    if (!call_remove(l, t)) {
        return;
    }
    if (hf_transfer_misled(t, code)) {
        add(l, t);
        return;
    }
    t->idles = code == CURLE_OK && t->stop == HF_STOP_NONE;
    if (hf_transfer_end(t, code, l->now)) {
        hop(l, t);
    } else {
        settle(l, t);
    }
}

void hf_attempt_expire(hf_loop *l, hf_transfer *t, int due, int64_t at) {
    if (due == HF_DUE_PASS) {
        t->stop = HF_STOP_DISCARD;
        hf_attempt_done(l, t, CURLE_OK);
        return;
    }
    hf_transfer_expire(t, due, at, l->now);
    if (call_remove(l, t)) {
        settle(l, t);
    }
}

void hf_attempt_abort(hf_loop *l, hf_request *r) {
    hf_transfer *t = r->transfer;
    hf_transfer_abort(t, r->cancelled ? HF_T_CANCELLED : HF_T_SHUTDOWN, l->now);
    if (!call_remove(l, t)) {
        return;
    }
    if (r->cancelled || l->settings->c.report_unanswered) {
        settle(l, t);
        return;
    }
    leave_lane(t);
    hf_transfer_rest(t);
    hf_shard_abort(l->shard, r, l->now);
}
