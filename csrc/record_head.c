#include "record_head.h"

#include <string.h>

#include "clock.h"
#include "ndjson.h"
#include "urlsafe.h"
#include "utf8.h"

/* --- small pieces ------------------------------------------------------------------
 */

/* Begins a field: false when it is not wanted. All begin with a comma, so that each is
 * a copy of known length; hf_record_put_head makes the first one a brace. */
#define FIELD(pen, name) begin(pen, HF_F_##name, ",\"" #name "\":", sizeof(#name) + 3)

static inline bool begin(hf_pen *w, int field, const char *key, size_t n) {
    if ((w->e->settings->fields >> field & 1) == 0) {
        return false;
    }
    hf_pen_put(w, key, n);
    return true;
}

static void put_null(hf_pen *w) {
    HF_PUT(w, "null");
}

static void put_bool(hf_pen *w, bool v) {
    if (v) {
        HF_PUT(w, "true");
    } else {
        HF_PUT(w, "false");
    }
}

static void put_i64(hf_pen *w, int64_t v) {
    w->p += hf_json_i64(w->p, v);
}

static void put_us(hf_pen *w, int64_t us) {
    if (us < 0) {
        put_null(w);
    } else {
        w->p += hf_json_us_as_seconds(w->p, us);
    }
}

/* 0 means "off" for limits. */
static void put_limit(hf_pen *w, int64_t us) {
    put_us(w, us > 0 ? us : -1);
}

/* A word of ours: nothing in it needs escaping. */
static void put_word(hf_pen *w, const char *s) {
    if (s == NULL) {
        put_null(w);
        return;
    }
    *w->p++ = '"';
    hf_pen_put(w, s, strlen(s));
    *w->p++ = '"';
}

static void put_text(hf_pen *w, const char *s) {
    if (s == NULL) {
        put_null(w);
    } else {
        w->p += hf_json_bytes(w->p, (const uint8_t *)s, strlen(s));
    }
}

static void put_bytes(hf_pen *w, const uint8_t *s, size_t n) {
    w->p += hf_json_bytes(w->p, s, n);
}

/* JSON text of the caller's, checked by Python when it was packed. */
static void put_json(hf_pen *w, hf_slice s) {
    if (s.p == NULL) {
        put_null(w);
    } else {
        hf_pen_put(w, (const char *)s.p, s.n);
    }
}

/* --- fields ------------------------------------------------------------------------
 */

static void put_input(hf_pen *w) {
    const hf_settings *s = w->e->settings;
    hf_slice in = w->r->input;
    if ((s->fields >> HF_F_input & 1) == 0) {
        return;
    }
    hf_buf safe = hf_buf_make(SIZE_MAX / 4);
    if (in.n > 0 && memchr(in.p, '@', in.n) != NULL &&
        hf_url_redact(in.p, in.n, &safe) == 0) {
        in = (hf_slice){safe.data, (uint32_t)safe.len};
    }
    if (hf_utf8_valid(in.p, in.n)) {
        FIELD(w, input);
        w->p += hf_json_string(w->p, in.p, in.n);
    } else {
        begin(w, HF_F_input, ",\"input_base64\":", 16);
        w->p += hf_json_base64(w->p, in.p, in.n);
    }
    hf_buf_free(&safe);
}

static void put_url(hf_pen *w, const hf_url *u) {
    /* Of a request that was never one there is no URL, whatever part was wrong. */
    const hf_outcome *o = &w->r->outcome;
    bool invalid = o->type == HF_T_INVALID_REQUEST && o->phase == HF_P_QUEUE;
    if (u->text == NULL || invalid) {
        put_null(w);
        return;
    }
    *w->p++ = '"';
    w->p += hf_json_escape(w->p, (const uint8_t *)u->shown, u->shown_len);
    if (u->fragment != NULL) {
        *w->p++ = '#';
        w->p += hf_json_escape(w->p, (const uint8_t *)u->fragment, strlen(u->fragment));
    }
    *w->p++ = '"';
}

static void put_request(hf_pen *w) {
    const hf_request *r = w->r;
    if (FIELD(w, schema)) {
        HF_PUT(w, "1");
    }
    if (FIELD(w, seq)) {
        w->p += hf_json_u64(w->p, r->seq);
    }
    if (FIELD(w, id)) {
        put_json(w, r->id);
    }
    put_input(w);
    if (FIELD(w, url)) {
        put_url(w, &r->url);
    }
    if (FIELD(w, final_url)) {
        bool moved = w->resp != NULL && w->resp->final.text != NULL;
        put_url(w, moved ? &w->resp->final : &r->url);
    }
    if (FIELD(w, method)) {
        hf_slice m = hf_request_method(w->e->settings, r);
        put_bytes(w, m.p, m.n);
    }
}

static const char *version_name(int version) {
    switch (version) {
    case 10:
        return "1.0";
    case 11:
        return "1.1";
    case 20:
        return "2";
    case 30:
        return "3";
    default:
        return NULL;
    }
}

static void put_headers(hf_pen *w) {
    if (!hf_record_shows_headers(w->e->settings, w->resp)) {
        put_null(w);
        return;
    }
    size_t pos = 0;
    hf_field f;
    *w->p++ = '[';
    for (bool more = false; hf_response_next(w->resp, &pos, &f); more = true) {
        if (more) {
            *w->p++ = ',';
        }
        *w->p++ = '[';
        put_bytes(w, f.name, f.name_len);
        *w->p++ = ',';
        put_bytes(w, f.value, f.value_len);
        *w->p++ = ']';
    }
    *w->p++ = ']';
}

static void put_head(hf_pen *w) {
    const hf_response *resp = w->resp;
    bool has = resp != NULL && resp->status != 0;
    if (FIELD(w, status_code)) {
        if (has) {
            put_i64(w, resp->status);
        } else {
            put_null(w);
        }
    }
    if (FIELD(w, http_version)) {
        put_word(w, has ? version_name(resp->http_version) : NULL);
    }
    if (FIELD(w, headers)) {
        put_headers(w);
    }
    if (FIELD(w, content_type)) {
        if (has && resp->has_type) {
            put_bytes(w, resp->head.data + resp->content_type.at,
                      resp->content_type.len);
        } else {
            put_null(w);
        }
    }
    if (FIELD(w, charset)) {
        put_word(w, w->text->charset);
    }
    if (FIELD(w, charset_source)) {
        put_word(w, hf_text_source_name(w->text->source));
    }
}

static void put_count(hf_pen *w, bool has, uint64_t n) {
    if (has) {
        w->p += hf_json_u64(w->p, n);
    } else {
        put_null(w);
    }
}

static void put_sizes(hf_pen *w) {
    const hf_response *resp = w->resp;
    bool has = resp != NULL && resp->status != 0;
    if (FIELD(w, size)) {
        put_count(w, has, has ? resp->body.len : 0);
    }
    if (FIELD(w, wire_size)) {
        put_count(w, has, has ? resp->wire_size : 0);
    }
    if (FIELD(w, decoded)) {
        put_bool(w, has && resp->decoded);
    }
    if (FIELD(w, truncated)) {
        put_word(w, hf_truncated_name(w->r->outcome.truncated));
    }
}

static void put_redirects(hf_pen *w) {
    *w->p++ = '[';
    for (int32_t i = 0; w->resp != NULL && i < w->resp->n_hops; i++) {
        const hf_hop *h = &w->resp->hops[i];
        if (i > 0) {
            *w->p++ = ',';
        }
        HF_PUT(w, "{\"url\":");
        put_text(w, h->url);
        HF_PUT(w, ",\"status_code\":");
        put_i64(w, h->status);
        HF_PUT(w, ",\"location\":");
        put_bytes(w, h->location, h->len);
        *w->p++ = '}';
    }
    *w->p++ = ']';
}

static void put_connection(hf_pen *w) {
    const hf_response *resp = w->resp;
    bool has = resp != NULL && resp->remote_port > 0;
    if (FIELD(w, redirects)) {
        put_redirects(w);
    }
    if (FIELD(w, remote_ip)) {
        put_text(w, has ? resp->remote_ip : NULL);
    }
    if (FIELD(w, remote_port)) {
        put_count(w, has, has ? (uint64_t)resp->remote_port : 0);
    }
    if (FIELD(w, reused)) {
        put_bool(w, resp != NULL && resp->reused);
    }
    if (FIELD(w, proxy)) {
        put_text(w, w->facts->proxy);
    }
    if (FIELD(w, impersonate)) {
        put_text(w, w->facts->impersonate);
    }
}

static void put_attempts(hf_pen *w) {
    const hf_request *r = w->r;
    *w->p++ = '[';
    for (int32_t i = 0; i < r->n_attempts; i++) {
        const hf_attempt *a = &r->attempts[i];
        if (i > 0) {
            *w->p++ = ',';
        }
        HF_PUT(w, "{\"n\":");
        put_i64(w, i + 1);
        HF_PUT(w, ",\"proxy\":");
        put_text(w, a->proxy);
        HF_PUT(w, ",\"status_code\":");
        put_count(w, a->status != 0, (uint64_t)a->status);
        HF_PUT(w, ",\"error\":");
        put_word(w, a->type != HF_T_NONE ? hf_type_name(a->type) : NULL);
        HF_PUT(w, ",\"elapsed\":");
        put_us(w, a->elapsed);
        HF_PUT(w, ",\"wait\":");
        put_us(w, a->wait);
        if (a->rejected != HF_REJECTED_NOT) {
            bool body = a->rejected == HF_REJECTED_BODY;
            HF_PUT(w, ",\"rejected\":");
            put_word(w, body ? "retry_on_body" : "validate");
        }
        if (i == r->n_attempts - 1 && r->denied[0] != '\0') {
            HF_PUT(w, ",\"retry_denied\":");
            put_text(w, r->denied);
        }
        *w->p++ = '}';
    }
    *w->p++ = ']';
}

static void put_timing(hf_pen *w) {
    const hf_request *r = w->r;
    const hf_response *resp = w->resp;
    HF_PUT(w, "{\"queue\":");
    put_us(w, r->first_start > 0 ? r->first_start - r->accepted : -1);
    HF_PUT(w, ",\"dns\":");
    put_us(w, resp != NULL ? resp->dns : -1);
    HF_PUT(w, ",\"connect\":");
    put_us(w, resp != NULL ? resp->connect : -1);
    HF_PUT(w, ",\"tls\":");
    put_us(w, resp != NULL ? resp->tls : -1);
    HF_PUT(w, ",\"first_byte\":");
    put_us(w, resp != NULL ? resp->first_byte : -1);
    HF_PUT(w, ",\"total\":");
    put_us(w, resp != NULL ? resp->total : -1);
    *w->p++ = '}';
}

static void put_limits(hf_pen *w) {
    const hf_request *r = w->r;
    HF_PUT(w, "{\"timeout\":");
    put_limit(w, r->limits.soft);
    HF_PUT(w, ",\"hard_timeout\":");
    put_limit(w, r->limits.hard);
    HF_PUT(w, ",\"deadline\":");
    put_limit(w, r->limits.job);
    HF_PUT(w, ",\"overrun\":");
    put_us(w, r->outcome.overrun);
    *w->p++ = '}';
}

static void put_error(hf_pen *w) {
    const hf_outcome *o = &w->r->outcome;
    if (o->type == HF_T_NONE) {
        put_null(w);
        return;
    }
    HF_PUT(w, "{\"type\":");
    put_word(w, hf_type_name(o->type));
    HF_PUT(w, ",\"origin\":");
    put_word(w, hf_origin_name(o->origin));
    HF_PUT(w, ",\"phase\":");
    put_word(w, hf_phase_name(o->phase));
    HF_PUT(w, ",\"message\":");
    put_text(w, o->message);
    HF_PUT(w, ",\"curl_code\":");
    put_count(w, o->curl_code > 0, (uint64_t)o->curl_code);
    HF_PUT(w, ",\"retryable\":");
    put_bool(w, hf_outcome_retryable(o));
    *w->p++ = '}';
}

static void put_account(hf_pen *w) {
    if (FIELD(w, attempts)) {
        put_attempts(w);
    }
    if (FIELD(w, timing)) {
        put_timing(w);
    }
    if (FIELD(w, elapsed)) {
        put_us(w, w->facts->now - w->r->accepted);
    }
    if (FIELD(w, limits)) {
        put_limits(w);
    }
    if (FIELD(w, error)) {
        put_error(w);
    }
    if (FIELD(w, fetched_at)) {
        w->p += hf_json_time(w->p, hf_clock_us(CLOCK_REALTIME));
    }
    if (FIELD(w, meta)) {
        put_json(w, w->r->meta);
    }
}

/* --- all of them -------------------------------------------------------------------
 */

void hf_record_put_head(hf_pen *w) {
    uint8_t *start = w->p;
    put_request(w);
    put_head(w);
    put_sizes(w);
    put_connection(w);
    put_account(w);
    w->first = w->p == start;
    w->p += w->first;
    *start = '{';
}
