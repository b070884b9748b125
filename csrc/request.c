#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "response.h"
#include "urlsafe.h"

enum { INPUT_CAP = 4096 }; /* bytes kept of a line in which no url was found */

#define LIMIT_MOST 31536000000000 /* us, a year: sums with the clock stay in range */

static hf_request *alloc_request(size_t headers, size_t bytes) {
    size_t table = headers * sizeof(hf_slice);
    hf_request *r = calloc(1, sizeof *r + table + bytes);
    if (r != NULL) {
        r->due = hf_due_make(0);
        r->hard = hf_due_make(0);
        r->job_due = HF_NEVER;
        r->exit = -1;
        r->headers = (hf_slice *)(void *)(r + 1);
        r->attempts = &r->first;
        r->charge = sizeof *r + table + bytes;
        hf_outcome_ok(&r->outcome);
    }
    return r;
}

static void invalid(hf_request *r, const char *why) {
    if (r->outcome.type == HF_T_NONE) {
        hf_outcome_set(&r->outcome, HF_T_INVALID_REQUEST, HF_P_QUEUE, HF_O_LOCAL, "%s",
                       why);
    }
}

/* Parses the URL; on failure the request is invalid. Returns 0 or HF_ENOMEM. */
static int take_url(const hf_settings *s, hf_request *r) {
    char text[sizeof r->outcome.message];
    hf_errbuf err = {text, sizeof text};
    if (r->outcome.type != HF_T_NONE) {
        return 0;
    }
    int rc = hf_url_parse(&s->curl, r->input.p, r->input.n, &r->url, err);
    if (rc == HF_EINVAL) {
        invalid(r, text);
    }
    return rc == HF_ENOMEM ? rc : 0;
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r';
}

hf_slice hf_line_trim(const uint8_t *line, size_t n) {
    while (n > 0 && is_space(line[n - 1])) {
        n--;
    }
    while (n > 0 && is_space(*line)) {
        line++;
        n--;
    }
    return (hf_slice){line, n > 0 && *line == '#' ? 0 : (uint32_t)n};
}

bool hf_line_is_json(hf_slice line) {
    const uint8_t *p = line.p;
    return line.n > 0 && (p[0] == '{' || p[0] == '"' ||
                          (p[0] == '[' && line.n > 1 && (p[1] == '{' || p[1] == '"')));
}

size_t hf_line_kept(size_t n) {
    return n <= HF_URL_MAX ? n : INPUT_CAP;
}

hf_request *hf_request_line(const hf_settings *s, const uint8_t *line, size_t n) {
    size_t keep = hf_line_kept(n);
    hf_request *r = alloc_request(0, keep);
    if (r == NULL) {
        return NULL;
    }
    uint8_t *copy = (uint8_t *)(r + 1);
    memcpy(copy, line, keep);
    r->input = (hf_slice){copy, (uint32_t)keep};
    r->limits = s->limits;
    if (keep < n) {
        invalid(r, "the line is longer than the 128 KiB that a URL may have");
    }
    if (take_url(s, r) != 0) {
        hf_request_free(r);
        return NULL;
    }
    return r;
}

/* --- packed frames -----------------------------------------------------------------
 */

typedef struct item {
    uint8_t tag;
    hf_slice value;
} item;

static uint32_t read_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

/* Reads the item at *pos. Returns 1, 0 at the end, HF_EINVAL when it is cut. */
static int next_item(const uint8_t *items, size_t n, size_t *pos, item *out) {
    if (*pos == n) {
        return 0;
    }
    if (n - *pos < 5) {
        return HF_EINVAL;
    }
    uint32_t len = read_u32(items + *pos + 1);
    if (len > n - *pos - 5) {
        return HF_EINVAL;
    }
    *out = (item){items[*pos], {items + *pos + 5, len}};
    *pos += 5 + (size_t)len;
    return 1;
}

static int64_t read_i64(hf_slice v) {
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--) {
        x = x << 8 | v.p[i];
    }
    return (int64_t)x;
}

static int64_t *limit_of(hf_request *r, uint8_t tag) {
    switch (tag) {
    case HF_TAG_CONNECT_TIMEOUT:
        return &r->limits.connect;
    case HF_TAG_FIRST_BYTE_TIMEOUT:
        return &r->limits.first_byte;
    case HF_TAG_IDLE_TIMEOUT:
        return &r->limits.idle;
    case HF_TAG_TIMEOUT:
        return &r->limits.soft;
    case HF_TAG_HARD_TIMEOUT:
        return &r->limits.hard;
    case HF_TAG_DEADLINE:
        return &r->limits.job;
    default:
        return NULL;
    }
}

static hf_slice *slice_of(hf_request *r, uint8_t tag) {
    switch (tag) {
    case HF_TAG_URL:
    case HF_TAG_INPUT:
        return &r->input;
    case HF_TAG_ID:
        return &r->id;
    case HF_TAG_META:
        return &r->meta;
    case HF_TAG_METHOD:
        return &r->method;
    case HF_TAG_BODY:
        return &r->body;
    case HF_TAG_PROXY:
        return &r->proxy;
    case HF_TAG_SESSION:
        return &r->session;
    case HF_TAG_IMPERSONATE:
        return &r->impersonate;
    case HF_TAG_HTTP_VERSION:
        return &r->http_version;
    default:
        return NULL;
    }
}

static int take_item(hf_request *r, const item *it) {
    hf_slice *slice = slice_of(r, it->tag);
    int64_t *limit = limit_of(r, it->tag);
    if (slice != NULL) {
        *slice = it->value;
    } else if (limit != NULL) {
        if (it->value.n != 8) {
            return HF_EINVAL;
        }
        *limit = read_i64(it->value);
    } else if (it->tag == HF_TAG_HEADER) {
        r->headers[r->n_headers++] = it->value;
    } else if (it->tag == HF_TAG_FRESH) {
        r->fresh = true;
    } else if (it->tag == HF_TAG_HOLD) {
        r->held = true;
    } else if (it->tag == HF_TAG_INVALID) {
        char text[sizeof r->outcome.message];
        size_t n = it->value.n < sizeof text - 1 ? it->value.n : sizeof text - 1;
        memcpy(text, it->value.p, n);
        text[n] = '\0';
        invalid(r, text);
    } else {
        return HF_EINVAL;
    }
    return 0;
}

static bool header_valid(hf_slice h) {
    const uint8_t *colon = memchr(h.p, ':', h.n);
    if (colon == NULL) {
        return false;
    }
    size_t name = (size_t)(colon - h.p);
    return hf_http_token_valid(h.p, name) &&
           hf_http_value_valid(colon + 1, h.n - name - 1);
}

static bool session_valid(hf_slice s) {
    return s.n <= 256 && hf_http_value_valid(s.p, s.n);
}

static bool http_version_valid(hf_slice v) {
    return v.n == 0 || (v.n == 3 && memcmp(v.p, "1.0", 3) == 0) ||
           (v.n == 3 && memcmp(v.p, "1.1", 3) == 0) ||
           (v.n == 1 && (v.p[0] == '2' || v.p[0] == '3'));
}

/* Everything that libcurl or the wire would take amiss is refused here, before any
 * connection, with a sentence that names it. */
static void check_items(hf_request *r) {
    if (r->method.p != NULL && !hf_http_token_valid(r->method.p, r->method.n)) {
        invalid(r, "method is not a token: use letters only, like GET or POST");
    }
    for (int32_t i = 0; i < r->n_headers; i++) {
        if (!header_valid(r->headers[i])) {
            invalid(r,
                    "a header holds a control character or no valid name: remove it");
        }
    }
    if (r->session.p != NULL && !session_valid(r->session)) {
        invalid(r, "session is longer than 256 bytes or holds a control character");
    }
    if (r->http_version.p != NULL && !http_version_valid(r->http_version)) {
        invalid(r, "http_version is none of 1.0, 1.1, 2, 3");
    }
    const hf_limits *l = &r->limits;
    if (l->soft <= 0 || l->hard <= 0) {
        invalid(r, "a time limit is zero or negative: give seconds above 0");
    } else if (l->hard < l->soft) {
        invalid(r, "hard_timeout is below timeout: raise it or leave it out");
    }
    if (r->input.p == NULL) {
        r->input = (hf_slice){(const uint8_t *)"", 0};
        invalid(r, "url is missing");
    }
}

/* Before anything is reckoned with them. */
static void check_range(const hf_settings *s, hf_request *r) {
    const hf_limits *l = &r->limits;
    const int64_t all[] = {l->connect, l->first_byte, l->idle,
                           l->soft,    l->hard,       l->job};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] < 0 || all[i] > LIMIT_MOST) {
            invalid(r, all[i] < 0
                           ? "a time limit is zero or negative: give seconds above 0"
                           : "a time limit is longer than a year");
            r->limits = s->limits;
        }
    }
}

/* A soft limit of the request's own moves the hard one along, unless that is given. */
static void settle_limits(const hf_settings *s, hf_request *r, bool soft, bool hard) {
    if (soft && !hard) {
        r->limits.hard = r->limits.soft + (s->limits.hard - s->limits.soft);
    } else if (hard && !soft && r->limits.soft > r->limits.hard) {
        r->limits.soft = r->limits.hard;
    }
}

static int count_items(const uint8_t *items, size_t n, size_t *headers) {
    size_t pos = 0;
    item it;
    int rc;
    *headers = 0;
    while ((rc = next_item(items, n, &pos, &it)) > 0) {
        *headers += it.tag == HF_TAG_HEADER;
    }
    return rc;
}

static int take_items(const hf_settings *s, hf_request *r, const uint8_t *items,
                      size_t n) {
    size_t pos = 0;
    item it;
    bool soft = false;
    bool hard = false;
    while (next_item(items, n, &pos, &it) > 0) {
        soft |= it.tag == HF_TAG_TIMEOUT;
        hard |= it.tag == HF_TAG_HARD_TIMEOUT;
        int rc = take_item(r, &it);
        if (rc != 0) {
            return rc;
        }
    }
    check_range(s, r);
    settle_limits(s, r, soft, hard);
    check_items(r);
    return take_url(s, r);
}

hf_request *hf_request_unpack(const hf_settings *s, const uint8_t *items, size_t n,
                              int *rc) {
    size_t headers;
    *rc = count_items(items, n, &headers);
    if (*rc != 0) {
        return NULL;
    }
    hf_request *r = alloc_request(headers, n);
    if (r == NULL) {
        *rc = HF_ENOMEM;
        return NULL;
    }
    uint8_t *copy = (uint8_t *)(r->headers + headers);
    memcpy(copy, items, n);
    r->limits = s->limits;
    *rc = take_items(s, r, copy, n);
    if (*rc != 0) {
        hf_request_free(r);
        return NULL;
    }
    return r;
}

int hf_request_input(const uint8_t *items, size_t n, hf_slice *out) {
    size_t pos = 0;
    item it;
    int rc;
    *out = (hf_slice){(const uint8_t *)"", 0};
    while ((rc = next_item(items, n, &pos, &it)) > 0) {
        if (it.tag == HF_TAG_URL || it.tag == HF_TAG_INPUT) {
            *out = it.value;
        }
    }
    return rc;
}

void hf_request_free(hf_request *r) {
    if (r == NULL) {
        return;
    }
    for (int32_t i = 0; i < r->n_attempts; i++) {
        free(r->attempts[i].proxy);
    }
    if (r->attempts != &r->first) {
        free(r->attempts);
    }
    free(r->next_proxy);
    free(r->proxy_shown);
    hf_url_free(&r->url);
    free(r);
}

static int grow_attempts(hf_request *r) {
    size_t size = (size_t)(r->n_attempts + 1) * sizeof(hf_attempt);
    bool inlined = r->attempts == &r->first;
    hf_attempt *grown = realloc(inlined ? NULL : r->attempts, size);
    if (grown == NULL) {
        return HF_ENOMEM;
    }
    if (inlined) {
        grown[0] = r->first;
    }
    r->attempts = grown;
    return 0;
}

int hf_request_note_attempt(hf_request *r, int status, int64_t elapsed,
                            const char *proxy) {
    if (r->n_attempts > 0 && grow_attempts(r) != 0) {
        return HF_ENOMEM;
    }
    char *copy = proxy != NULL ? strdup(proxy) : NULL;
    if (proxy != NULL && copy == NULL) {
        return HF_ENOMEM;
    }
    r->attempts[r->n_attempts++] = (hf_attempt){.status = status,
                                                .type = r->outcome.type,
                                                .elapsed = elapsed,
                                                .wait = r->wait,
                                                .proxy = copy};
    return 0;
}

bool hf_request_claim(hf_request *r) {
    uint32_t none = 0;
    /* Pairs with itself in the other thread: of the loop and the watchdog, one wins.
     * acq_rel, so that the winner sees what the other wrote before it lost the shard.
     */
    return hf_cas(&r->claimed, &none, 1, HF_ACQ_REL, HF_ACQUIRE);
}

bool hf_method_idempotent(hf_slice m) {
    static const char *const names[] = {"GET", "HEAD",   "OPTIONS",
                                        "PUT", "DELETE", "TRACE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (m.n == strlen(names[i]) && memcmp(m.p, names[i], m.n) == 0) {
            return true;
        }
    }
    return false;
}

const hf_url *hf_request_url(const hf_request *r) {
    const hf_response *resp = r->response;
    return resp != NULL && resp->final.text != NULL ? &resp->final : &r->url;
}

hf_slice hf_request_method(const hf_settings *s, const hf_request *r) {
    if (r->method.p != NULL) {
        return r->method;
    }
    const char *name = s->c.method;
    if (name[0] == '\0') {
        bool post = r->body.p != NULL || s->c.body_len >= 0;
        name = post ? "POST" : "GET";
    }
    return (hf_slice){(const uint8_t *)name, (uint32_t)strlen(name)};
}
