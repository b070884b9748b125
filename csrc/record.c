#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "ndjson.h"
#include "record_head.h"

/* Bodies are encoded in pieces of so many bytes, a multiple of three as base64 wants
 * it. One piece and what becomes of it fit the processor's first cache. */
#define PIECE ((size_t)3 << 12)

static const char *const field_names[] = {
#define HF_FIELD_NAME(name) #name,
    HF_FIELD_LIST(HF_FIELD_NAME)
#undef HF_FIELD_NAME
};

static int field_of(const char *name, size_t n) {
    for (int f = 0; f < HF_F_COUNT; f++) {
        if (strlen(field_names[f]) == n && memcmp(name, field_names[f], n) == 0) {
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
        int f = field_of(*names, strlen(*names));
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

/* --- the record --------------------------------------------------------------------
 */

/* The body as the line will hold it. */
typedef struct body_plan {
    hf_text text;
    bool shown;       /* the line holds it */
    bool is_text;     /* in Unicode, not in base64 */
    const uint8_t *s; /* what is escaped or encoded */
    size_t n;
} body_plan;

/* What is escaped or encoded once it is known what the body is. */
static void plan_source(body_plan *plan, const uint8_t *body, size_t n) {
    plan->is_text = plan->text.kind == HF_TEXT_UTF8;
    plan->s = plan->is_text ? plan->text.utf8 : body;
    plan->n = plan->is_text ? plan->text.utf8_len : n;
}

static int plan_body(hf_encoder *e, const hf_response *resp, body_plan *plan) {
    const hf_config *c = &e->settings->c;
    memset(plan, 0, sizeof *plan);
    if (resp == NULL || resp->status == 0) {
        return 0;
    }
    const uint8_t *type =
        resp->has_type ? resp->head.data + resp->content_type.at : NULL;
    bool wanted = (e->settings->fields >> HF_F_body & 1) != 0;
    plan->shown = wanted && resp->body.len > 0 && c->body_mode != HF_BODY_NONE &&
                  c->output == HF_OUTPUT_LINES;
    bool as_text = plan->shown && c->body_mode != HF_BODY_BASE64;
    int rc = (as_text ? hf_text_decide : hf_text_name)(
        e->text, resp->body.data, resp->body.len, type, resp->content_type.len,
        c->body_mode == HF_BODY_TEXT, &plan->text);
    if (rc != 0) {
        return rc;
    }
    plan_source(plan, resp->body.data, resp->body.len);
    return 0;
}

/* --- a line, piece by piece --------------------------------------------------------
 */

/* A record in the making. It grows at the tail of the ring, where nobody sees it before
 * it is whole; one that is to travel by reference grows in scratch. */
typedef struct draft {
    hf_ring *ring;
    hf_buf *scratch;
    size_t used; /* bytes that stand there so far */
    bool by_ref;
    bool apart; /* the open piece is in scratch */
} draft;

/* Bytes to write the next piece into. A piece that meets the end of the ring, or for
 * whose worst case there is no room, is made in scratch and copied. NULL: no memory. */
static uint8_t *open_piece(draft *d, size_t room) {
    uint8_t *p = d->by_ref ? NULL : hf_ring_extend(d->ring, d->used, room);
    d->apart = p == NULL;
    if (p != NULL) {
        return p;
    }
    return hf_buf_reserve(d->scratch, room) == 0 ? d->scratch->data + d->scratch->len
                                                 : NULL;
}

/* Ends the piece that was opened at p. Returns 0 or HF_EFULL. */
static int close_piece(draft *d, const uint8_t *p, size_t n) {
    if (d->by_ref) {
        d->scratch->len += n;
    } else if (d->apart && hf_ring_append(d->ring, d->used, p, n) != 0) {
        return HF_EFULL;
    }
    d->used += n;
    return 0;
}

/* Where a piece ends: not inside a UTF-8 sequence. */
static size_t piece_end(const body_plan *plan, size_t at) {
    size_t end = plan->n - at > PIECE ? at + PIECE : plan->n;
    while (plan->is_text && end < plan->n && (plan->s[end] & 0xc0) == 0x80) {
        end--;
    }
    return end;
}

/* Writes the body and what ends the line. */
static int put_body(draft *d, const body_plan *plan) {
    size_t at = 0;
    int rc;
    do {
        size_t end = piece_end(plan, at);
        size_t n = end - at;
        size_t room = plan->is_text ? hf_json_room(n) : hf_base64_size(n);
        uint8_t *p = open_piece(d, room + 3);
        if (p == NULL) {
            return HF_ENOMEM;
        }
        size_t len = plan->is_text ? hf_json_escape(p, plan->s + at, n)
                                   : hf_base64_encode(p, plan->s + at, n);
        at = end;
        if (at == plan->n) {
            memcpy(p + len, "\"}\n", 3);
            len += 3;
        }
        rc = close_piece(d, p, len);
    } while (rc == 0 && at < plan->n);
    return rc;
}

static void put_key(hf_pen *w, const body_plan *plan) {
    if (!w->first) {
        *w->p++ = ',';
    }
    if (plan->is_text) {
        HF_PUT(w, "\"body\":\"");
    } else {
        HF_PUT(w, "\"body_base64\":\"");
    }
}

static int put_line(draft *d, hf_pen *w, const body_plan *plan, size_t room) {
    uint8_t *place = open_piece(d, room + 32);
    if (place == NULL) {
        return HF_ENOMEM;
    }
    w->p = place;
    hf_record_put_head(w);
    if (plan->shown) {
        put_key(w, plan);
    } else {
        HF_PUT(w, "}\n");
    }
    int rc = close_piece(d, place, (size_t)(w->p - place));
    return rc == 0 && plan->shown ? put_body(d, plan) : rc;
}

static int write_line(hf_encoder *e, hf_ring *ring, hf_pen *w, const body_plan *plan,
                      size_t room) {
    hf_buf *b = &e->scratch;
    size_t body = plan->shown ? plan->n : 0;
    draft d = {.ring = ring, .scratch = b, .by_ref = hf_ring_by_ref(ring, room + body)};
    b->len = 0;
    /* Markup grows by some per cent: with luck it is not moved while it does. */
    int rc = d.by_ref ? hf_buf_reserve(b, room + body + body / 8 + PIECE) : 0;
    rc = rc == 0 ? put_line(&d, w, plan, room) : rc;
    if (rc != 0 || !d.by_ref) {
        if (rc == 0) {
            hf_ring_commit(ring, d.used);
        }
        return rc;
    }
    rc = hf_ring_push_ref(ring, b->data, b->len);
    if (rc == 0) {
        *b = hf_buf_make(b->max);
    }
    return rc;
}

/* --- a frame -----------------------------------------------------------------------
 */

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

/* Bytes of a frame before its line. */
enum { FRAME_HEAD = 24 };

/* n bytes, little endian. */
static void put_number(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

/* A frame's form. Its bits, from the lowest one: 16 for the body, 0 for none in the
 * line or 1 + the text's key, which is 0 for base64; 32 for what is hidden; 14 for the
 * HTTP status, 0 for none; 1 where there is an error; and 1 which tells that the last
 * two are told, so that they can be had without reading the line. */
_Static_assert(HF_F_COUNT < 32, "a form has 32 bits for what is hidden");
enum { HIDDEN_AT = 16, STATUS_AT = 48, ERROR_AT = 62, TOLD_AT = 63 };

static uint64_t form_of(const hf_pen *w) {
    const hf_settings *s = w->e->settings;
    uint64_t form = (uint64_t)1 << TOLD_AT | s->hidden << HIDDEN_AT;
    if ((s->hidden >> HF_F_body & 1) == 0 && s->c.body_mode != HF_BODY_NONE) {
        form |= 1 + (s->c.body_mode == HF_BODY_BASE64 ? 0 : hf_text_key(w->text));
    }
    form |= (uint64_t)(w->r->outcome.type != HF_T_NONE) << ERROR_AT;
    return w->resp != NULL ? form | (uint64_t)w->resp->status << STATUS_AT : form;
}

/* A frame is small but for its body, which is copied once, into the ring. */
static int write_frame(hf_encoder *e, hf_ring *ring, hf_pen *w, size_t room) {
    hf_buf *b = &e->scratch;
    b->len = 0;
    int rc = hf_buf_reserve(b, FRAME_HEAD + room + 1);
    if (rc != 0) {
        return rc;
    }
    w->p = b->data + FRAME_HEAD;
    hf_record_put_head(w);
    HF_PUT(w, "}");
    b->len = (size_t)(w->p - b->data);
    size_t json = b->len - FRAME_HEAD;
    bool has = w->resp != NULL && w->resp->status != 0 &&
               e->settings->c.body_mode != HF_BODY_NONE;
    size_t body_len = has ? w->resp->body.len : 0;
    put_number(b->data, FRAME_HEAD - 4 + json + body_len, 4);
    put_number(b->data + 4, json | (size_t)w->r->provisional << 31, 4);
    put_number(b->data + 8, w->r->seq, 8);
    put_number(b->data + 16, form_of(w), 8);
    return publish(e, ring, has ? w->resp->body.data : NULL, body_len);
}

int hf_record_write(hf_encoder *e, hf_ring *ring, const hf_request *r,
                    const hf_response *resp, const hf_facts *facts) {
    body_plan plan;
    int rc = plan_body(e, resp, &plan);
    if (rc != 0) {
        return rc;
    }
    hf_pen w = {.e = e, .r = r, .resp = resp, .facts = facts, .text = &plan.text};
    size_t room = hf_record_head_room(e, r, resp, facts);
    if (e->settings->c.output == HF_OUTPUT_FRAMES) {
        return write_frame(e, ring, &w, room);
    }
    return write_line(e, ring, &w, &plan, room);
}

/* --- a frame's line ----------------------------------------------------------------
 */

/* Where the field of a head that starts at `at` ends. */
static size_t field_end(const uint8_t *head, size_t n, size_t at) {
    int depth = 0;
    bool text = false;
    for (; at < n; at++) {
        uint8_t c = head[at];
        if (c == '\\') {
            at++; /* only texts have them */
        } else if (c == '"') {
            text = !text;
        } else if (!text) {
            depth += (c == '[' || c == '{') - (c == ']' || c == '}');
            if (c == ',' && depth == 0) {
                return at;
            }
        }
    }
    return n;
}

/* Whether the field that is written as s, `"name":value`, is hidden. */
static bool is_hidden(const uint8_t *s, size_t n, uint32_t hidden) {
    static const char twin[] = "_base64";
    const size_t more = sizeof twin - 1;
    const uint8_t *end = n > 2 ? memchr(s + 1, '"', n - 1) : NULL;
    size_t len = end != NULL ? (size_t)(end - s) - 1 : 0;
    if (len > more && memcmp(end - more, twin, more) == 0) {
        len -= more;
    }
    int f = end != NULL ? field_of((const char *)s + 1, len) : -1;
    return f >= 0 && (hidden >> f & 1) != 0;
}

/* Copies what is not hidden of a head without its last brace. Returns its end. */
static uint8_t *put_shown(uint8_t *out, const uint8_t *head, size_t n,
                          uint32_t hidden) {
    static const char no_headers[] = "\"headers\":null";
    uint8_t *p = out;
    *p++ = '{';
    for (size_t at = 1, end; at < n; at = end + 1) {
        end = field_end(head, n, at);
        if (is_hidden(head + at, end - at, hidden)) {
            continue;
        }
        const uint8_t *s = head + at;
        size_t len = end - at;
        if ((hidden >> HF_F_COUNT & 1) != 0 && len > 9 &&
            memcmp(s, no_headers, 10) == 0) {
            s = (const uint8_t *)no_headers;
            len = sizeof no_headers - 1;
        }
        if (p > out + 1) {
            *p++ = ',';
        }
        memcpy(p, s, len);
        p += len;
    }
    return p;
}

int hf_record_line(hf_encoder *e, const uint8_t *head, size_t head_len,
                   const uint8_t *body, size_t n, uint64_t form) {
    uint32_t how = (uint16_t)form;
    uint32_t hidden = (uint32_t)(form >> HIDDEN_AT);
    body_plan plan = {.shown = n > 0 && how > 0};
    hf_buf *b = &e->scratch;
    draft d = {.scratch = b, .by_ref = true};
    if (head_len < 2) {
        return HF_EINVAL;
    }
    int rc = plan.shown ? hf_text_recall(e->text, how - 1, body, n, &plan.text) : 0;
    plan_source(&plan, body, n);
    b->len = 0;
    /* Enough for most, so that it does not grow, and be moved, piece by piece. */
    size_t grown = plan.n + plan.n / 8 + hf_json_room(PIECE);
    rc = rc == 0 ? hf_buf_reserve(b, head_len + 64 + (plan.shown ? grown : 0)) : rc;
    if (rc != 0) {
        return rc;
    }
    hf_pen w = {.p = b->data + head_len - 1};
    if (hidden == 0) {
        memcpy(b->data, head, head_len - 1);
    } else {
        w.p = put_shown(b->data, head, head_len - 1, hidden);
    }
    w.first = w.p == b->data + 1;
    if (plan.shown) {
        put_key(&w, &plan);
    } else {
        HF_PUT(&w, "}\n");
    }
    b->len = (size_t)(w.p - b->data);
    return plan.shown ? put_body(&d, &plan) : 0;
}
