#include "resume.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "ndjson.h"
#include "request.h"
#include "urlsafe.h"
#include "utf8.h"

/* Nesting of an id's JSON that is read; Python's own limit is lower. */
#define DEPTH_MOST 4096

typedef struct block {
    uint64_t mask; /* bit n: number 64 * i + n is answered */
    uint64_t sum;  /* over the records' hashes, less those of the inputs seen */
} block;

struct hf_resume {
    block *blocks; /* owned */
    size_t n;      /* blocks that are filled */
    size_t cap;
    uint64_t count; /* records */
    uint64_t end;   /* highest number answered + 1 */
    uint64_t bytes; /* of records read, for messages */
    uint64_t seen;  /* inputs */
    hf_buf echo;    /* an input as its record tells it */
};

hf_resume *hf_resume_new(void) {
    hf_resume *r = calloc(1, sizeof *r);
    if (r != NULL) {
        r->echo = hf_buf_make(SIZE_MAX / 4);
    }
    return r;
}

void hf_resume_free(hf_resume *r) {
    if (r != NULL) {
        free(r->blocks);
        hf_buf_free(&r->echo);
        free(r);
    }
}

/* --- hashes ------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t x) {
    /* The finisher of SplitMix64 (Steele, Lea, Flood 2014). */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t hash(uint64_t seq, const uint8_t *p, size_t n) {
    uint64_t h = mix(seq + 0x9e3779b97f4a7c15u) ^ n;
    while (n > 0) {
        uint64_t word = 0;
        size_t step = n < sizeof word ? n : sizeof word;
        memcpy(&word, p, step);
        h = mix((h ^ word) + 0x9e3779b97f4a7c15u);
        p += step;
        n -= step;
    }
    return h;
}

/* --- records -----------------------------------------------------------------------
 */

typedef struct cursor {
    const uint8_t *p;
    const uint8_t *end;
} cursor;

static bool take(cursor *c, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0) {
        return false;
    }
    c->p += n;
    return true;
}

static bool take_number(cursor *c, uint64_t *out) {
    const uint8_t *from = c->p;
    uint64_t v = 0;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9' && c->p - from < 19) {
        v = v * 10 + (uint64_t)(*c->p++ - '0');
    }
    *out = v;
    return c->p > from;
}

/* Passes a string whose first quote is behind the cursor. */
static bool skip_string(cursor *c) {
    while (c->p < c->end) {
        const uint8_t *quote = memchr(c->p, '"', (size_t)(c->end - c->p));
        if (quote == NULL) {
            return false;
        }
        size_t slashes = 0;
        while (quote - slashes > c->p && quote[-1 - (ptrdiff_t)slashes] == '\\') {
            slashes++;
        }
        c->p = quote + 1;
        if (slashes % 2 == 0) {
            return true;
        }
    }
    return false;
}

/* Passes one JSON value: the text is known to be JSON, only its end is looked for. */
static bool skip_value(cursor *c) {
    int depth = 0;
    while (c->p < c->end) {
        uint8_t ch = *c->p;
        if (depth == 0 && (ch == ',' || ch == '}')) {
            return true;
        }
        c->p++;
        if (ch == '"' && !skip_string(c)) {
            return false;
        }
        depth += ch == '{' || ch == '[';
        depth -= ch == '}' || ch == ']';
        if (depth < 0 || depth > DEPTH_MOST) {
            return false;
        }
    }
    return false;
}

/* Reads number and input, key and quotes included, from the head of a record. */
static const char *read_head(cursor c, uint64_t *seq, const uint8_t **input,
                             size_t *n) {
    if (!take(&c, "{")) {
        return "is no record";
    }
    if (take(&c, "\"schema\":") && !take(&c, "1,")) {
        return "has another schema than 1";
    }
    if (!take(&c, "\"seq\":") || !take_number(&c, seq)) {
        return "has no seq in front";
    }
    if (take(&c, ",\"id\":") && !skip_value(&c)) {
        return "has a broken id";
    }
    *input = c.p;
    if (!take(&c, ",\"input\":\"") && !take(&c, ",\"input_base64\":\"")) {
        return "has no input, so nothing can be compared";
    }
    if (!skip_string(&c)) {
        return "has a broken input";
    }
    *n = (size_t)(c.p - *input);
    return NULL;
}

static int reserve(hf_resume *r, size_t i) {
    if (i >= r->cap) {
        size_t cap = r->cap < 1024 ? 1024 : r->cap;
        while (cap <= i) {
            cap *= 2;
        }
        block *grown = realloc(r->blocks, cap * sizeof *grown);
        if (grown == NULL) {
            return HF_ENOMEM;
        }
        memset(grown + r->cap, 0, (cap - r->cap) * sizeof *grown);
        r->blocks = grown;
        r->cap = cap;
    }
    r->n = i >= r->n ? i + 1 : r->n;
    return 0;
}

static int take_record(hf_resume *r, const uint8_t *line, size_t n, hf_errbuf err) {
    unsigned long long number = r->count + 1;
    const uint8_t *input = NULL;
    size_t len = 0;
    uint64_t seq = 0;
    const char *why = read_head((cursor){line, line + n}, &seq, &input, &len);
    if (why == NULL && seq >= HF_RESUME_MOST) {
        why = "has a seq that no run gives";
    }
    if (why == NULL && line[n - 1] != '}') {
        why = "is cut";
    }
    if (why != NULL) {
        return hf_fail(err, HF_EINVAL, "line %llu %s", number, why);
    }
    if (reserve(r, (size_t)(seq / 64)) != 0) {
        return hf_fail(err, HF_ENOMEM, "no memory for seq %llu",
                       (unsigned long long)seq);
    }
    block *b = &r->blocks[seq / 64];
    if ((b->mask >> (seq % 64) & 1) != 0) {
        return hf_fail(err, HF_EINVAL, "line %llu has seq %llu again", number,
                       (unsigned long long)seq);
    }
    b->mask |= (uint64_t)1 << (seq % 64);
    b->sum += hash(seq, input, len);
    r->count++;
    r->end = seq >= r->end ? seq + 1 : r->end;
    return 0;
}

int hf_resume_records(hf_resume *r, const uint8_t *data, size_t len, size_t *used,
                      char *err, size_t errlen) {
    *used = 0;
    while (*used < len) {
        const uint8_t *line = data + *used;
        const uint8_t *nl = memchr(line, '\n', len - *used);
        if (nl == NULL) {
            return 0;
        }
        int rc = take_record(r, line, (size_t)(nl - line), (hf_errbuf){err, errlen});
        if (rc != 0) {
            return rc;
        }
        *used += (size_t)(nl - line) + 1;
    }
    return 0;
}

/* --- inputs ------------------------------------------------------------------------
 */

/* Writes the input as the record does (record_head.c): a test holds the two together.
 */
static int echo(hf_resume *r, hf_slice in) {
    hf_buf safe = hf_buf_make(SIZE_MAX / 4);
    hf_buf *b = &r->echo;
    if (in.n > 0 && memchr(in.p, '@', in.n) != NULL &&
        hf_url_redact(in.p, in.n, &safe) == 0) {
        in = (hf_slice){safe.data, (uint32_t)safe.len};
    }
    bool text = hf_utf8_valid(in.p, in.n);
    const char *key = text ? ",\"input\":" : ",\"input_base64\":";
    b->len = 0;
    int rc = hf_buf_append(b, key, strlen(key));
    if (rc == 0) {
        size_t room = text ? hf_json_room(in.n) : hf_base64_size(in.n) + 2;
        rc = hf_buf_reserve(b, room);
    }
    if (rc == 0) {
        b->len += text ? hf_json_string(b->data + b->len, in.p, in.n)
                       : hf_json_base64(b->data + b->len, in.p, in.n);
    }
    hf_buf_free(&safe);
    return rc;
}

static int take_input(hf_resume *r, hf_slice in) {
    uint64_t seq = r->seen++;
    if (seq >= r->end || (r->blocks[seq / 64].mask >> (seq % 64) & 1) == 0) {
        return 0;
    }
    int rc = echo(r, in);
    if (rc == 0) {
        r->blocks[seq / 64].sum -= hash(seq, r->echo.data, r->echo.len);
    }
    return rc;
}

int hf_resume_lines(hf_resume *r, const uint8_t *data, size_t len, size_t *used) {
    *used = 0;
    while (*used < len && r->seen < r->end) {
        const uint8_t *line = data + *used;
        const uint8_t *nl = memchr(line, '\n', len - *used);
        if (nl == NULL) {
            return 0;
        }
        hf_slice in = hf_line_trim(line, (size_t)(nl - line));
        if (hf_line_is_json(in)) {
            return HF_EAGAIN;
        }
        in.n = (uint32_t)hf_line_kept(in.n);
        int rc = in.n > 0 ? take_input(r, in) : 0;
        if (rc != 0) {
            return rc;
        }
        *used += (size_t)(nl - line) + 1;
    }
    return 0;
}

int hf_resume_frames(hf_resume *r, const uint8_t *frames, size_t len) {
    size_t at = 0;
    while (at < len) {
        const uint8_t *f = frames + at;
        uint32_t n = len - at >= 4 ? (uint32_t)f[0] | (uint32_t)f[1] << 8 |
                                         (uint32_t)f[2] << 16 | (uint32_t)f[3] << 24
                                   : UINT32_MAX;
        hf_slice in;
        if (n > len - at - 4 || hf_request_input(f + 4, n, &in) != 0) {
            return HF_EINVAL;
        }
        int rc = take_input(r, in);
        if (rc != 0) {
            return rc;
        }
        at += 4 + (size_t)n;
    }
    return 0;
}

/* --- the verdict -------------------------------------------------------------------
 */

int hf_resume_verdict(const hf_resume *r, char *err, size_t errlen) {
    hf_errbuf eb = {err, errlen};
    /* What was seen in full is compared first: it tells best where the change is. */
    size_t full = r->seen / 64 < r->n ? (size_t)(r->seen / 64) : r->n;
    full = r->seen >= r->end ? r->n : full;
    for (size_t i = 0; i < full; i++) {
        if (r->blocks[i].sum != 0) {
            return hf_fail(eb, HF_EINVAL,
                           "the inputs have changed: between seq %llu and %llu one is "
                           "not that of its record",
                           (unsigned long long)i * 64, (unsigned long long)i * 64 + 63);
        }
    }
    if (r->seen < r->end) {
        return hf_fail(eb, HF_EINVAL,
                       "the inputs have changed: there are %llu, and the output has a "
                       "record of seq %llu",
                       (unsigned long long)r->seen, (unsigned long long)r->end - 1);
    }
    return 0;
}

uint64_t hf_resume_count(const hf_resume *r) {
    return r->count;
}

uint64_t hf_resume_end(const hf_resume *r) {
    return r->end;
}

uint64_t hf_resume_seen(const hf_resume *r) {
    return r->seen;
}

void hf_resume_bitmap(const hf_resume *r, uint8_t *out) {
    for (uint64_t i = 0; i < (r->end + 7) / 8; i++) {
        out[i] = (uint8_t)(r->blocks[i / 8].mask >> (i % 8 * 8));
    }
}
