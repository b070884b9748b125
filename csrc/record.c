#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "ndjson.h"
#include "record_head.h"

/* Bodies are escaped in pieces of this size where the room is made as it goes. */
#define PIECE 65536

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

/* --- the record --------------------------------------------------------------------
 */

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
    if (plan->shown) {
        plan->room = plan->text.kind == HF_TEXT_UTF8
                         ? hf_json_room(plan->text.utf8_len)
                         : hf_base64_size(resp->body.len) + HF_JSON_SLACK;
        plan->room += 32;
    }
    return 0;
}

static void put_body(hf_pen *w) {
    if (!w->first) {
        *w->p++ = ',';
    }
    if (w->text->kind == HF_TEXT_UTF8) {
        HF_PUT(w, "\"body\":");
        w->p += hf_json_string(w->p, w->text->utf8, w->text->utf8_len);
    } else {
        HF_PUT(w, "\"body_base64\":");
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
static int encode_apart(hf_encoder *e, hf_pen *w, const body_plan *plan, size_t room) {
    hf_buf *b = &e->scratch;
    b->len = 0;
    int rc = hf_buf_reserve(b, room);
    if (rc != 0) {
        return rc;
    }
    w->p = b->data;
    hf_record_put_head(w);
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

/* Bytes of a frame before its line. */
enum { FRAME_HEAD = 16 };

/* n bytes, little endian. */
static void put_number(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
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
    size_t most = room + plan.room + 2;
    uint8_t *place = hf_ring_by_ref(ring, most) ? NULL : hf_ring_reserve(ring, most);
    if (place != NULL) {
        w.p = place;
        hf_record_put_head(&w);
        if (plan.shown) {
            put_body(&w);
        }
        HF_PUT(&w, "}\n");
        hf_ring_commit(ring, (size_t)(w.p - place));
        return 0;
    }
    rc = encode_apart(e, &w, &plan, room);
    return rc == 0 ? publish(e, ring, NULL, 0) : rc;
}
