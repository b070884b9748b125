/* What policy is asked and told: events. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shard_parts.h"

static void copy_text(const char *text, char *out, size_t cap) {
    size_t n = strlen(text);
    n = n < cap - 1 ? n : cap - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static void fill_event(const hf_request *r, const char *host, int64_t now,
                       hf_event *ev) {
    memset(ev, 0, sizeof *ev);
    const hf_outcome *o = &r->outcome;
    const hf_response *resp = r->response;
    ev->seq = r->seq;
    ev->type = o->type;
    ev->phase = o->phase;
    ev->origin = o->origin;
    ev->status = resp != NULL ? resp->status : 0;
    ev->curl_code = o->curl_code;
    ev->attempt = r->n_attempts + r->hopping;
    ev->at = now;
    ev->elapsed = r->hopping ? r->spent : r->attempts[r->n_attempts - 1].elapsed;
    ev->since = now - r->accepted;
    ev->left = r->job_due == HF_NEVER ? -1 : r->job_due - now;
    ev->flags = (resp != NULL && resp->reused ? HF_EV_REUSED : 0) |
                (o->phase >= HF_P_SEND || o->type == HF_T_NONE ? HF_EV_SENT : 0) |
                (r->fresh ? HF_EV_FRESH : 0) | (r->grant.probe ? HF_EV_PROBE : 0) |
                (r->matched ? HF_EV_MATCHED : 0) | (r->host_alive ? HF_EV_ALIVE : 0);
    ev->proxy = r->exit;
    ev->pair_failures = r->pair_failures;
    ev->host_requests = (int64_t)r->host_requests;
    size_t ns =
        r->session.n < sizeof ev->session - 1 ? r->session.n : sizeof ev->session - 1;
    if (ns > 0) {
        memcpy(ev->session, r->session.p, ns);
    }
    copy_text(host, ev->host, sizeof ev->host);
}

/* Copies the values of a header, one a line; with `most` 1 the first one alone. */
static void copy_values(const hf_response *resp, const char *name, int most, char *out,
                        size_t cap) {
    size_t used = 0;
    size_t pos = 0;
    hf_field f;
    while (most > 0 && hf_response_next(resp, &pos, &f)) {
        if (f.name_len != strlen(name) ||
            strncasecmp((const char *)f.name, name, f.name_len) != 0) {
            continue;
        }
        most--;
        if (f.value_len + 2 <= cap - used) {
            memcpy(out + used, f.value, f.value_len);
            used += f.value_len;
            out[used++] = '\n';
        }
    }
    out[used > 0 ? used - 1 : 0] = '\0';
}

/* Gives the event the start of the body that policy is to look at. Returns false
 * without memory for it. */
static bool add_body(const hf_shard *s, const hf_request *r, hf_event *ev) {
    if (!hf_shard_asks_body(s, r)) {
        return true;
    }
    const hf_buf *body = &r->response->body;
    size_t n = body->len < HF_MATCH_BYTES ? body->len : HF_MATCH_BYTES;
    ev->body = malloc(n);
    if (ev->body == NULL) {
        return false;
    }
    memcpy(ev->body, body->data, n);
    ev->body_len = (int64_t)n;
    return true;
}

bool hf_shard_tell(hf_shard *s, hf_request *r, int flags, int64_t now) {
    hf_event ev;
    const hf_url *url = hf_request_url(r);
    fill_event(r, url->hostport, now, &ev);
    ev.flags |= flags;
    if (r->hopping) {
        ev.flags |= HF_EV_HOP;
        ev.url = strdup(url->shown);
        if (ev.url == NULL) {
            return false; /* asked again at the next iteration */
        }
    }
    ev.exit_quiet = r->exit >= 0 ? hf_exits_quiet(&s->shared->exits, r->exit, now) : -1;
    if (hf_method_idempotent(hf_request_method(s->settings, r))) {
        ev.flags |= HF_EV_IDEMPOTENT;
    }
    const hf_refusal *refusal = r->response != NULL ? r->response->refusal : NULL;
    if (refusal != NULL) {
        memcpy(ev.retry_after, refusal->retry_after, sizeof ev.retry_after);
        memcpy(ev.date, refusal->date, sizeof ev.date);
    } else if (r->response != NULL) {
        copy_values(r->response, "retry-after", 8, ev.retry_after,
                    sizeof ev.retry_after);
        copy_values(r->response, "date", 1, ev.date, sizeof ev.date);
    }
    bool news = (flags & HF_EV_NEWS) != 0;
    if ((!news && !add_body(s, r, &ev)) || hf_slots_push(&s->events, &ev) != 0) {
        hf_event_clear(&ev);
        return false; /* asked again at the next iteration */
    }
    return true;
}

void hf_shard_judge(hf_shard *s, hf_request *r, int64_t now) {
    r->state = HF_R_JUDGED;
    hf_heap_set(&s->heap, &r->due, r->job_due);
    if (s->unjudged.first != NULL || !hf_shard_tell(s, r, 0, now)) {
        hf_requests_append(&s->unjudged, r);
    }
    hf_stat_add(&s->counts.policy, 1);
}

void hf_shard_ask(hf_shard *s, int64_t now) {
    while (s->unjudged.first != NULL && hf_shard_tell(s, s->unjudged.first, 0, now)) {
        hf_requests_take(&s->unjudged);
    }
}

void hf_shard_tell_opened(hf_shard *s, const hf_host *h) {
    hf_event ev = {.flags = HF_EV_NEWS | HF_EV_OPENED, .proxy = -1};
    copy_text(h->key, ev.host, sizeof ev.host);
    hf_slots_push(&s->events, &ev); /* a count less where there is no room */
}
