#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "clock.h"
#include "ndjson.h"
#include "urlsafe.h"
#include "utf8.h"

/* Room for keys, numbers, fixed words and closed-list names of one record. */
#define FIXED_ROOM 2048
/* The same for each element of a list: brackets, keys, numbers. */
#define ELEMENT_ROOM 256
/* Bodies are escaped in pieces of this size where the room is made as it goes. */
#define PIECE 65536

/* Where a record is being written: room has been made for what is put. */
typedef struct pen {
    const hf_encoder *e;
    const hf_request *r;
    const hf_response *resp;
    const hf_facts *facts;
    const hf_text *text;
    uint8_t *p;
    bool first; /* no field stands before the body */
} pen;

static const char *const field_names[] = {
#define HF_FIELD_NAME(name) #name,
    HF_FIELD_LIST(HF_FIELD_NAME)
#undef HF_FIELD_NAME
};

static int field_of(const char *name) {
    for (int f = 0; f < HF_F_COUNT; f++) {
        if (strcmp(name, field_names[f]) == 0) {
            return f;
        }
    }
    return -1;
}

int hf_record_fields(const char *const *names, uint64_t *out, hf_errbuf err) {
    *out = ((uint64_t)1 << HF_F_COUNT) - 1;
    if (names == NULL) {
        return 0;
    }
    *out = 0;
    for (; *names != NULL; names++) {
        int f = field_of(*names);
        if (f < 0) {
            return hf_fail(err, HF_EINVAL, "there is no field \"%s\" in a record",
                           *names);
        }
        *out |= (uint64_t)1 << f;
    }
    return 0;
}

int hf_encoder_init(hf_encoder *e, const hf_settings *settings) {
    e->settings = settings;
    e->scratch = hf_buf_make(SIZE_MAX / 2);
    e->text = hf_text_new();
    return e->text != NULL ? 0 : HF_ENOMEM;
}

void hf_encoder_free(hf_encoder *e) {
    hf_text_free(e->text);
    hf_buf_free(&e->scratch);
    e->text = NULL;
}

/* --- small pieces ------------------------------------------------------------------
 */

#define PUT(pen, literal) put(pen, literal, sizeof(literal) - 1)

static inline void put(pen *w, const char *s, size_t n) {
    memcpy(w->p, s, n);
    w->p += n;
}

/* Begins a field: false when it is not wanted. All begin with a comma, so that each is
 * a copy of known length; put_all_but_body makes the first one a brace. */
#define FIELD(pen, name) begin(pen, HF_F_##name, ",\"" #name "\":", sizeof(#name) + 3)

static inline bool begin(pen *w, int field, const char *key, size_t n) {
    if ((w->e->settings->fields >> field & 1) == 0) {
        return false;
    }
    put(w, key, n);
    return true;
}

static void put_null(pen *w) {
    PUT(w, "null");
}

static void put_bool(pen *w, bool v) {
    if (v) {
        PUT(w, "true");
    } else {
        PUT(w, "false");
    }
}

static void put_i64(pen *w, int64_t v) {
    w->p += hf_json_i64(w->p, v);
}

static void put_us(pen *w, int64_t us) {
    if (us < 0) {
        put_null(w);
    } else {
        w->p += hf_json_us_as_seconds(w->p, us);
    }
}

/* 0 means "off" for limits. */
static void put_limit(pen *w, int64_t us) {
    put_us(w, us > 0 ? us : -1);
}

/* A word of ours: nothing in it needs escaping. */
static void put_word(pen *w, const char *s) {
    if (s == NULL) {
        put_null(w);
        return;
    }
    *w->p++ = '"';
    put(w, s, strlen(s));
    *w->p++ = '"';
}

static void put_text(pen *w, const char *s) {
    if (s == NULL) {
        put_null(w);
    } else {
        w->p += hf_json_bytes(w->p, (const uint8_t *)s, strlen(s));
    }
}

static void put_bytes(pen *w, const uint8_t *s, size_t n) {
    w->p += hf_json_bytes(w->p, s, n);
}

/* JSON text of the caller's, checked by Python when it was packed. */
static void put_json(pen *w, hf_slice s) {
    if (s.p == NULL) {
        put_null(w);
    } else {
        put(w, (const char *)s.p, s.n);
    }
}

/* --- fields ------------------------------------------------------------------------
 */

static void put_input(pen *w) {
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

static void put_url(pen *w, const hf_url *u) {
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

static void put_request(pen *w) {
    const hf_request *r = w->r;
    if (FIELD(w, schema)) {
        PUT(w, "1");
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

static void put_headers(pen *w) {
    if (w->resp == NULL || w->resp->status == 0 || !w->e->settings->c.headers) {
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

static void put_head(pen *w) {
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

static void put_count(pen *w, bool has, uint64_t n) {
    if (has) {
        w->p += hf_json_u64(w->p, n);
    } else {
        put_null(w);
    }
}

static void put_sizes(pen *w) {
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

static void put_redirects(pen *w) {
    *w->p++ = '[';
    for (int32_t i = 0; w->resp != NULL && i < w->resp->n_hops; i++) {
        const hf_hop *h = &w->resp->hops[i];
        if (i > 0) {
            *w->p++ = ',';
        }
        PUT(w, "{\"url\":");
        put_text(w, h->url);
        PUT(w, ",\"status_code\":");
        put_i64(w, h->status);
        PUT(w, ",\"location\":");
        put_bytes(w, h->location, h->len);
        *w->p++ = '}';
    }
    *w->p++ = ']';
}

static void put_connection(pen *w) {
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

static void put_attempts(pen *w) {
    const hf_request *r = w->r;
    *w->p++ = '[';
    for (int32_t i = 0; i < r->n_attempts; i++) {
        const hf_attempt *a = &r->attempts[i];
        if (i > 0) {
            *w->p++ = ',';
        }
        PUT(w, "{\"n\":");
        put_i64(w, i + 1);
        PUT(w, ",\"proxy\":");
        put_text(w, a->proxy);
        PUT(w, ",\"status_code\":");
        put_count(w, a->status != 0, (uint64_t)a->status);
        PUT(w, ",\"error\":");
        put_word(w, a->type != HF_T_NONE ? hf_type_name(a->type) : NULL);
        PUT(w, ",\"elapsed\":");
        put_us(w, a->elapsed);
        PUT(w, ",\"wait\":");
        put_us(w, a->wait);
        *w->p++ = '}';
    }
    *w->p++ = ']';
}

static void put_timing(pen *w) {
    const hf_request *r = w->r;
    const hf_response *resp = w->resp;
    PUT(w, "{\"queue\":");
    put_us(w, r->first_start > 0 ? r->first_start - r->accepted : -1);
    PUT(w, ",\"dns\":");
    put_us(w, resp != NULL ? resp->dns : -1);
    PUT(w, ",\"connect\":");
    put_us(w, resp != NULL ? resp->connect : -1);
    PUT(w, ",\"tls\":");
    put_us(w, resp != NULL ? resp->tls : -1);
    PUT(w, ",\"first_byte\":");
    put_us(w, resp != NULL ? resp->first_byte : -1);
    PUT(w, ",\"total\":");
    put_us(w, resp != NULL ? resp->total : -1);
    *w->p++ = '}';
}

static void put_limits(pen *w) {
    const hf_request *r = w->r;
    PUT(w, "{\"timeout\":");
    put_limit(w, r->limits.soft);
    PUT(w, ",\"hard_timeout\":");
    put_limit(w, r->limits.hard);
    PUT(w, ",\"deadline\":");
    put_limit(w, r->limits.job);
    PUT(w, ",\"overrun\":");
    put_us(w, r->outcome.overrun);
    *w->p++ = '}';
}

static void put_error(pen *w) {
    const hf_outcome *o = &w->r->outcome;
    if (o->type == HF_T_NONE) {
        put_null(w);
        return;
    }
    PUT(w, "{\"type\":");
    put_word(w, hf_type_name(o->type));
    PUT(w, ",\"origin\":");
    put_word(w, hf_origin_name(o->origin));
    PUT(w, ",\"phase\":");
    put_word(w, hf_phase_name(o->phase));
    PUT(w, ",\"message\":");
    put_text(w, o->message);
    PUT(w, ",\"curl_code\":");
    put_count(w, o->curl_code > 0, (uint64_t)o->curl_code);
    PUT(w, ",\"retryable\":");
    put_bool(w, hf_outcome_retryable(o));
    if (w->r->denied[0] != '\0') {
        PUT(w, ",\"retry_denied\":");
        put_text(w, w->r->denied);
    }
    *w->p++ = '}';
}

static void put_account(pen *w) {
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

/* --- the record --------------------------------------------------------------------
 */

/* Bytes that all but the body may take. */
static size_t head_room(const hf_encoder *e, const hf_request *r,
                        const hf_response *resp, const hf_facts *facts) {
    size_t text = 4 * (size_t)r->input.n + r->id.n + r->meta.n;
    text += hf_request_method(e->settings, r).n;
    text += r->url.len + 2 * sizeof r->outcome.message;
    text += facts->proxy != NULL ? strlen(facts->proxy) : 0;
    text += facts->impersonate != NULL ? strlen(facts->impersonate) : 0;
    size_t elements = (size_t)r->n_attempts;
    for (int32_t i = 0; i < r->n_attempts; i++) {
        text += r->attempts[i].proxy != NULL ? strlen(r->attempts[i].proxy) : 0;
    }
    if (resp != NULL) {
        /* Each header line holds two bytes of its own at least; a pair takes 8 more. */
        text += 2 * resp->head.len + resp->final.len;
        text += resp->final.text != NULL && resp->final.fragment != NULL
                    ? strlen(resp->final.fragment)
                    : 0;
        for (int32_t i = 0; i < resp->n_hops; i++) {
            text += resp->hops[i].len + strlen(resp->hops[i].url);
        }
        elements += (size_t)resp->n_hops;
    }
    return FIXED_ROOM + hf_json_room(text) + elements * ELEMENT_ROOM;
}

static void put_all_but_body(pen *w) {
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

/* The body as the line will hold it. */
typedef struct body_plan {
    hf_text text;
    bool shown;  /* the line holds it */
    size_t room; /* bytes it may take */
} body_plan;

static int plan_body(hf_encoder *e, const hf_response *resp, body_plan *plan) {
    const hf_config *c = &e->settings->c;
    memset(plan, 0, sizeof *plan);
    if (resp == NULL || resp->status == 0) {
        return 0;
    }
    const uint8_t *type = resp->head.data + resp->content_type.at;
    int rc = hf_text_decide(e->text, resp->body.data, resp->body.len,
                            resp->has_type ? type : NULL, resp->content_type.len,
                            c->body_mode == HF_BODY_TEXT, &plan->text);
    if (rc != 0) {
        return rc;
    }
    if (c->body_mode == HF_BODY_BASE64 && plan->text.kind == HF_TEXT_UTF8) {
        plan->text.kind = HF_TEXT_BASE64;
    }
    bool wanted = (e->settings->fields >> HF_F_body & 1) != 0;
    plan->shown = wanted && resp->body.len > 0 && c->body_mode != HF_BODY_NONE &&
                  c->output == HF_OUTPUT_LINES;
    if (plan->shown) {
        plan->room = plan->text.kind == HF_TEXT_UTF8
                         ? hf_json_room(plan->text.utf8_len)
                         : hf_base64_size(resp->body.len) + HF_JSON_SLACK;
        plan->room += 32;
    }
    return 0;
}

static void put_body(pen *w) {
    if (!w->first) {
        *w->p++ = ',';
    }
    if (w->text->kind == HF_TEXT_UTF8) {
        PUT(w, "\"body\":");
        w->p += hf_json_string(w->p, w->text->utf8, w->text->utf8_len);
    } else {
        PUT(w, "\"body_base64\":");
        w->p += hf_json_base64(w->p, w->resp->body.data, w->resp->body.len);
    }
}

/* Where a piece may end: not inside a UTF-8 sequence. */
static size_t piece_end(const uint8_t *s, size_t at, size_t n) {
    size_t end = n - at > PIECE ? at + PIECE : n;
    while (end < n && (s[end] & 0xc0) == 0x80) {
        end--;
    }
    return end;
}

/* Escapes a long text while the room grows with what it really takes. */
static int append_text_body(hf_buf *b, const hf_text *t, bool first) {
    const char *key = first ? "\"body\":\"" : ",\"body\":\"";
    int rc = hf_buf_append(b, key, strlen(key));
    for (size_t at = 0; rc == 0 && at < t->utf8_len;) {
        size_t end = piece_end(t->utf8, at, t->utf8_len);
        rc = hf_buf_reserve(b, hf_json_room(end - at));
        if (rc == 0) {
            b->len += hf_json_escape(b->data + b->len, t->utf8 + at, end - at);
            at = end;
        }
    }
    return rc == 0 ? hf_buf_append(b, "\"", 1) : rc;
}

/* Encodes into scratch, for records that are long or meet the end of the ring. */
static int encode_apart(hf_encoder *e, pen *w, const body_plan *plan, size_t room) {
    hf_buf *b = &e->scratch;
    b->len = 0;
    int rc = hf_buf_reserve(b, room);
    if (rc != 0) {
        return rc;
    }
    w->p = b->data;
    put_all_but_body(w);
    b->len = (size_t)(w->p - b->data);
    if (plan->shown && plan->text.kind == HF_TEXT_UTF8) {
        rc = append_text_body(b, &plan->text, w->first);
    } else if (plan->shown) {
        rc = hf_buf_reserve(b, plan->room);
        if (rc == 0) {
            w->p = b->data + b->len;
            put_body(w);
            b->len = (size_t)(w->p - b->data);
        }
    }
    return rc == 0 ? hf_buf_append(b, "}\n", 2) : rc;
}

/* Publishes scratch, and body behind it for frames. Long ones go by reference. */
static int publish(hf_encoder *e, hf_ring *ring, const uint8_t *body, size_t body_len) {
    hf_buf *b = &e->scratch;
    struct iovec parts[2] = {{b->data, b->len}, {(void *)(uintptr_t)body, body_len}};
    size_t total = b->len + body_len;
    if (!hf_ring_by_ref(ring, total)) {
        return hf_ring_push(ring, parts, body_len > 0 ? 2 : 1);
    }
    int rc = body_len > 0 ? hf_buf_append(b, body, body_len) : 0;
    if (rc != 0) {
        return rc;
    }
    rc = hf_ring_push_ref(ring, b->data, b->len);
    if (rc == 0) {
        *b = hf_buf_make(b->max);
    }
    return rc;
}

static void put_u32(uint8_t *p, size_t v) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

/* A frame is small but for its body, which is copied once, into the ring. */
static int write_frame(hf_encoder *e, hf_ring *ring, pen *w, size_t room) {
    hf_buf *b = &e->scratch;
    b->len = 0;
    int rc = hf_buf_reserve(b, room + 16);
    if (rc != 0) {
        return rc;
    }
    w->p = b->data + 8;
    put_all_but_body(w);
    PUT(w, "}\n");
    b->len = (size_t)(w->p - b->data);
    size_t json = b->len - 8;
    bool has = w->resp != NULL && w->resp->status != 0 &&
               e->settings->c.body_mode != HF_BODY_NONE;
    size_t body_len = has ? w->resp->body.len : 0;
    put_u32(b->data, 4 + json + body_len);
    put_u32(b->data + 4, json);
    return publish(e, ring, has ? w->resp->body.data : NULL, body_len);
}

int hf_record_write(hf_encoder *e, hf_ring *ring, const hf_request *r,
                    const hf_response *resp, const hf_facts *facts) {
    body_plan plan;
    int rc = plan_body(e, resp, &plan);
    if (rc != 0) {
        return rc;
    }
    pen w = {.e = e, .r = r, .resp = resp, .facts = facts, .text = &plan.text};
    size_t room = head_room(e, r, resp, facts);
    if (e->settings->c.output == HF_OUTPUT_FRAMES) {
        return write_frame(e, ring, &w, room);
    }
    size_t most = room + plan.room + 2;
    uint8_t *place = hf_ring_by_ref(ring, most) ? NULL : hf_ring_reserve(ring, most);
    if (place != NULL) {
        w.p = place;
        put_all_but_body(&w);
        if (plan.shown) {
            put_body(&w);
        }
        PUT(&w, "}\n");
        hf_ring_commit(ring, (size_t)(w.p - place));
        return 0;
    }
    rc = encode_apart(e, &w, &plan, room);
    return rc == 0 ? publish(e, ring, NULL, 0) : rc;
}
