#include "response.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void hf_response_init(hf_response *r, int64_t max_head, int64_t max_body) {
    memset(r, 0, sizeof *r);
    r->head = hf_buf_make((size_t)max_head);
    r->encoding = hf_buf_make(1024);
    r->body = hf_buf_make((size_t)max_body);
    hf_response_reset(r, 0);
}

static void free_hops(hf_response *r) {
    for (int32_t i = 0; i < r->n_hops; i++) {
        free(r->hops[i].url);
    }
    r->n_hops = 0;
    hf_url_free(&r->final);
}

void hf_response_new_head(hf_response *r) {
    r->head.len = 0;
    r->encoding.len = 0;
    r->status = 0;
    r->http_version = 0;
    r->head_done = false;
    r->block_done = false;
    r->has_location = false;
    r->has_type = false;
    r->interim = false;
    r->switches = false;
    r->chunked = false;
    r->endless = false;
    r->head_cookies = 0;
    r->interims = 0;
    r->location = r->content_type = (hf_range){0, 0};
}

void hf_response_new_hop(hf_response *r) {
    hf_response_new_head(r);
    free(r->refusal);
    r->refusal = NULL;
    r->reused = false;
    r->remote_port = 0;
    r->remote_ip[0] = '\0';
    r->dns = r->connect = r->tls = r->first_byte = r->total = -1;
}

void hf_response_reset(hf_response *r, size_t keep) {
    hf_response_new_hop(r);
    hf_buf_reset(&r->head, keep);
    hf_buf_reset(&r->body, keep);
    free_hops(r);
    r->cookies = 0;
    r->to_get = r->strip = false;
    r->decoded = false;
    r->wire_size = 0;
}

void hf_response_free(hf_response *r) {
    free_hops(r);
    free(r->refusal);
    r->refusal = NULL;
    free(r->hops);
    r->hops = NULL;
    r->cap_hops = 0;
    hf_buf_free(&r->head);
    hf_buf_free(&r->encoding);
    hf_buf_free(&r->body);
}

/* HTTP/2 and 3 have no status lines: libcurl makes them, and takes none of exactly this
 * form from an HTTP/1 server. */
static bool is_made(const uint8_t *s, size_t n) {
    return n == 13 && (s[5] == '2' || s[5] == '3') && s[6] == ' ' &&
           memcmp(s + 10, " \r\n", 3) == 0;
}

/* "HTTP/1.1 200 …" and "HTTP/2 200 …": version in tenths and status. libcurl has let
 * the line pass, so what does not fit reads as 0. */
static void status_line(hf_response *r, const uint8_t *s, size_t n) {
    size_t i = 5;
    int version = 0;
    if (i < n && s[i] >= '0' && s[i] <= '9') {
        version = (s[i++] - '0') * 10;
    }
    if (i + 1 < n && s[i] == '.' && s[i + 1] >= '0' && s[i + 1] <= '9') {
        version += s[i + 1] - '0';
        i += 2;
    }
    if (version > 11 && !is_made(s, n)) {
        version = 11;
    }
    while (i < n && s[i] == ' ') {
        i++;
    }
    int status = 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9' && status < 1000; i++) {
        status = status * 10 + (s[i] - '0');
    }
    r->interim = status >= 100 && status < 200;
    r->switches = status == 101;
    r->http_version = version;
    r->status = status >= 200 && status < 1000 ? status : 0;
}

static bool is_name(const hf_field *f, const char *name, uint32_t n) {
    return f->name_len == n && strncasecmp((const char *)f->name, name, n) == 0;
}

static hf_range range_of(const hf_response *r, const hf_field *f) {
    return (hf_range){(uint32_t)(f->value - r->head.data), f->value_len};
}

static int join_encoding(hf_response *r, const hf_field *f) {
    int rc = r->encoding.len > 0 ? hf_buf_append(&r->encoding, ", ", 2) : 0;
    return rc != 0 ? rc : hf_buf_append(&r->encoding, f->value, f->value_len);
}

/* Past 2^63 libcurl takes the length for unknown, and whatever came for all of it. */
static bool is_beyond(const hf_field *f) {
    uint32_t i = 0;
    while (i < f->value_len && f->value[i] == '0') {
        i++;
    }
    uint32_t digits = 0;
    while (i < f->value_len && f->value[i] >= '0' && f->value[i] <= '9') {
        i++;
        digits++;
    }
    return digits > 18;
}

/* Bytes of "type/subtype" at the start of a Content-Type; 0 where there is none. */
static size_t essence(const uint8_t *s, size_t n) {
    const uint8_t *end = memchr(s, ';', n);
    size_t len = end != NULL ? (size_t)(end - s) : n;
    while (len > 0 && (s[len - 1] == ' ' || s[len - 1] == '\t')) {
        len--;
    }
    bool any = len == 3 && memcmp(s, "*/*", 3) == 0;
    return memchr(s, '/', len) != NULL && !any ? len : 0;
}

/* Of several Content-Types the last counts that is one; but where it just repeats the
 * type, a charset stays (Fetch standard, "extract a MIME type"). */
static bool counts(const hf_response *r, const hf_field *f) {
    const uint8_t *old = r->head.data + r->content_type.at;
    size_t len = essence(f->value, f->value_len);
    if (!r->has_type || len == 0) {
        return !r->has_type;
    }
    bool same = len == essence(old, r->content_type.len) &&
                strncasecmp((const char *)old, (const char *)f->value, len) == 0;
    return !same || memchr(f->value + len, '=', f->value_len - len) != NULL;
}

/* Keeps the fields that the core acts upon. The first Location wins, as in browsers. */
static int note_field(hf_response *r, const hf_field *f) {
    switch (f->name[0] | 0x20) {
    case 'l':
        if (!r->has_location && is_name(f, "location", 8)) {
            r->location = range_of(r, f);
            r->has_location = true;
        }
        break;
    case 'c':
        if (is_name(f, "content-type", 12)) {
            r->content_type = counts(r, f) ? range_of(r, f) : r->content_type;
            r->has_type = true;
        } else if (is_name(f, "content-length", 14)) {
            r->endless |= is_beyond(f);
        } else if (is_name(f, "content-encoding", 16)) {
            return join_encoding(r, f);
        }
        break;
    case 's':
        if (is_name(f, "set-cookie", 10)) {
            r->cookies++;
            r->head_cookies++;
        }
        break;
    case 't':
        r->chunked |= is_name(f, "transfer-encoding", 17);
        break;
    default:
        break;
    }
    return 0;
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Cuts one line into name and value; a line without a colon is all name. Returns false
 * where there is neither: the blank line behind a head. */
static bool split(const uint8_t *s, size_t n, hf_field *out) {
    const uint8_t *colon = memchr(s, ':', n);
    const uint8_t *end = s + n;
    const uint8_t *name_end = colon != NULL ? colon : end;
    const uint8_t *value = colon != NULL ? colon + 1 : end;
    while (name_end > s && is_blank(name_end[-1])) {
        name_end--;
    }
    while (value < end && is_blank(*value)) {
        value++;
    }
    while (end > value && is_blank(end[-1])) {
        end--;
    }
    *out = (hf_field){s, value, (uint32_t)(name_end - s), (uint32_t)(end - value)};
    return colon != NULL || name_end > s;
}

int hf_response_header(hf_response *r, const uint8_t *line, size_t n) {
    if (r->block_done) { /* it was an interim one */
        size_t bytes = r->interims + r->head.len;
        hf_response_new_head(r);
        r->interims = bytes;
    }
    size_t at = r->head.len;
    int rc = r->interims + at + n > r->head.max ? HF_EFULL
                                                : hf_buf_append(&r->head, line, n);
    if (rc != 0) {
        return rc;
    }
    const uint8_t *mine = r->head.data + at;
    if (at == 0) {
        status_line(r, mine, n);
        return 0;
    }
    hf_field f;
    if (!split(mine, n, &f)) {
        r->head_done = !r->interim && r->status != 0;
        r->block_done = true;
        return 0;
    }
    rc = f.name_len > 0 && !r->interim ? note_field(r, &f) : 0;
    /* An absurdly long Content-Encoding is refused by the decoder as it stands. */
    return rc == HF_EFULL ? 0 : rc;
}

int hf_response_hop(hf_response *r, const char *url, bool get, const uint8_t *location,
                    size_t n) {
    if (r->n_hops == r->cap_hops) {
        int32_t cap = r->cap_hops == 0 ? 4 : r->cap_hops * 2;
        hf_hop *hops = realloc(r->hops, (size_t)cap * sizeof *hops);
        if (hops == NULL) {
            return HF_ENOMEM;
        }
        r->hops = hops;
        r->cap_hops = cap;
    }
    size_t len = strlen(url) + 1;
    char *block = malloc(len + n);
    if (block == NULL) {
        return HF_ENOMEM;
    }
    memcpy(block, url, len);
    if (n > 0) {
        memcpy(block + len, location, n);
    }
    r->hops[r->n_hops++] = (hf_hop){.url = block,
                                    .status = r->status,
                                    .get = get,
                                    .cookies = r->cookies - r->head_cookies,
                                    .len = (uint32_t)n,
                                    .location = (uint8_t *)block + len};
    return 0;
}

bool hf_response_redirects(const hf_response *r) {
    switch (r->status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return r->has_location;
    default:
        return false;
    }
}

bool hf_response_next(const hf_response *r, size_t *pos, hf_field *out) {
    const uint8_t *base = r->head.data;
    while (*pos < r->head.len) {
        const uint8_t *line = base + *pos;
        const uint8_t *nl = memchr(line, '\n', r->head.len - *pos);
        size_t n = nl != NULL ? (size_t)(nl - line) + 1 : r->head.len - *pos;
        bool first = *pos == 0;
        *pos += n;
        if (split(line, n, out) && !first) {
            return true;
        }
    }
    return false;
}
