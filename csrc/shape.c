#include "shape.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "loop.h"

static bool slice_is(hf_slice s, const char *word) {
    size_t n = strlen(word);
    return s.n == n && memcmp(s.p, word, n) == 0;
}

static size_t name_len(const uint8_t *p, size_t n) {
    const uint8_t *colon = memchr(p, ':', n);
    return colon != NULL ? (size_t)(colon - p) : n;
}

static bool same_name(const uint8_t *a, size_t n, const char *b) {
    size_t len = name_len((const uint8_t *)b, strlen(b));
    return len == n && strncasecmp((const char *)a, b, n) == 0;
}

static bool in_list(const uint8_t *name, size_t n, const char *const *list) {
    for (; list != NULL && *list != NULL; list++) {
        if (same_name(name, n, *list)) {
            return true;
        }
    }
    return false;
}

hf_slice hf_shape_method(const hf_transfer *t) {
    static const uint8_t get[] = "GET";
    if (t->resp->to_get) {
        return (hf_slice){get, 3};
    }
    return hf_request_method(t->identity->loop->settings, t->req);
}

/* The request body of this hop; p NULL when there is none. */
static hf_slice body_of(const hf_transfer *t) {
    const hf_config *c = &t->identity->loop->settings->c;
    if (t->resp->to_get) {
        return (hf_slice){NULL, 0};
    }
    if (t->req->body.p != NULL) {
        return t->req->body;
    }
    if (c->body_len >= 0 && t->req->method.p == NULL) {
        return (hf_slice){c->body, (uint32_t)c->body_len};
    }
    return (hf_slice){NULL, 0};
}

/* --- headers -----------------------------------------------------------------------
 */

static int add(hf_transfer *t, const char *text) {
    const hf_curl *c = t->identity->loop->curl;
    struct curl_slist *grown = c->curl_slist_append(t->headers, text);
    if (grown == NULL) {
        return HF_ENOMEM;
    }
    t->headers = grown;
    return 0;
}

/* libcurl drops "Name:" and wants "Name;" for a header without a value. */
static int add_slice(hf_transfer *t, hf_slice h) {
    char *text = malloc((size_t)h.n + 2);
    if (text == NULL) {
        return HF_ENOMEM;
    }
    memcpy(text, h.p, h.n);
    size_t n = h.n;
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) {
        n--;
    }
    if (n > 0 && text[n - 1] == ':' && name_len(h.p, h.n) == n - 1) {
        text[n - 1] = ';';
    }
    text[n] = '\0';
    int rc = add(t, text);
    free(text);
    return rc;
}

static bool given(const hf_request *r, const uint8_t *name, size_t n) {
    for (int32_t i = 0; i < r->n_headers; i++) {
        size_t len = name_len(r->headers[i].p, r->headers[i].n);
        if (len == n &&
            strncasecmp((const char *)r->headers[i].p, (const char *)name, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Headers that describe a body go with it, when a redirect turns POST into GET. */
static bool describes_body(const uint8_t *name, size_t n) {
    static const char *const names[] = {"Content-Type",
                                        "Content-Length",
                                        "Content-Encoding",
                                        "Content-Language",
                                        "Content-Location",
                                        "Transfer-Encoding",
                                        NULL};
    return in_list(name, n, names);
}

/* A session's cookies and the caller's go in one header, which libcurl makes. */
static bool is_merged(const hf_transfer *t, const uint8_t *name, size_t n) {
    return t->identity->cookies && same_name(name, n, "Cookie");
}

static bool withheld(const hf_transfer *t, const uint8_t *name, size_t n) {
    const hf_config *c = &t->identity->loop->settings->c;
    if (t->resp->strip &&
        (in_list(name, n, c->sensitive) || same_name(name, n, "Host"))) {
        return true;
    }
    return t->resp->to_get && describes_body(name, n);
}

static int add_defaults(hf_transfer *t) {
    int rc = 0;
    for (struct curl_slist *h = t->identity->headers; rc == 0 && h != NULL;
         h = h->next) {
        const uint8_t *p = (const uint8_t *)h->data;
        size_t n = name_len(p, strlen(h->data));
        if (!given(t->req, p, n) && !withheld(t, p, n) && !is_merged(t, p, n)) {
            rc = add(t, h->data);
        }
    }
    return rc;
}

static bool has_header(const hf_transfer *t, const char *name) {
    size_t n = strlen(name);
    if (given(t->req, (const uint8_t *)name, n)) {
        return true;
    }
    for (struct curl_slist *h = t->identity->headers; h != NULL; h = h->next) {
        if (same_name((const uint8_t *)name, n, h->data)) {
            return true;
        }
    }
    return false;
}

/* What is told of a body, an empty one of a POST too. That of the options goes as a
 * form, as curl's -d does. Nothing is known of a request's own, for which libcurl would
 * invent the same. And it would wait for 100-continue. */
static int add_body_headers(hf_transfer *t, hf_slice body) {
    bool form = body.p != NULL && t->req->body.p == NULL;
    const char *type =
        form ? "Content-Type: application/x-www-form-urlencoded" : "Content-Type:";
    int rc = has_header(t, "Content-Type") ? 0 : add(t, type);
    return rc != 0 || has_header(t, "Expect") ? rc : add(t, "Expect:");
}

static bool has_body(const hf_transfer *t, hf_slice body) {
    return body.p != NULL || slice_is(hf_shape_method(t), "POST");
}

static int build_headers(hf_transfer *t, hf_slice body) {
    int rc = add_defaults(t);
    for (int32_t i = 0; rc == 0 && i < t->req->n_headers; i++) {
        hf_slice h = t->req->headers[i];
        size_t n = name_len(h.p, h.n);
        if (!withheld(t, h.p, n) && !is_merged(t, h.p, n)) {
            rc = add_slice(t, h);
        }
    }
    return rc == 0 && has_body(t, body) ? add_body_headers(t, body) : rc;
}

static int set_headers(hf_transfer *t, hf_slice body) {
    const hf_curl *c = t->identity->loop->curl;
    bool own = t->req->n_headers > 0 || has_body(t, body) || t->resp->strip ||
               t->resp->to_get || (t->identity->cookies && has_header(t, "Cookie"));
    if (!own && t->headers == NULL) {
        return 0;
    }
    c->curl_slist_free_all(t->headers);
    t->headers = NULL;
    int rc = own ? build_headers(t, body) : 0;
    struct curl_slist *list = own ? t->headers : t->identity->headers;
    c->curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, list);
    return rc;
}

static int join_cookie(hf_transfer *t, hf_buf *all, const uint8_t *p, size_t n) {
    size_t at = name_len(p, n);
    if (at == n || !is_merged(t, p, at) || withheld(t, p, at)) {
        return 0;
    }
    for (at++; at < n && (p[at] == ' ' || p[at] == '\t');) {
        at++;
    }
    int rc = all->len > 0 ? hf_buf_append(all, "; ", 2) : 0;
    return rc != 0 ? rc : hf_buf_append(all, p + at, n - at);
}

/* The caller's own cookies beside those of the session. */
static int set_cookies(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    if (!t->identity->cookies || !(t->has_cookies || has_header(t, "Cookie"))) {
        return 0;
    }
    bool own = given(t->req, (const uint8_t *)"Cookie", 6);
    hf_buf all = hf_buf_make(SIZE_MAX);
    int rc = 0;
    for (int32_t i = 0; rc == 0 && i < t->req->n_headers; i++) {
        rc = join_cookie(t, &all, t->req->headers[i].p, t->req->headers[i].n);
    }
    for (struct curl_slist *h = t->identity->headers; rc == 0 && !own && h != NULL;
         h = h->next) {
        rc = join_cookie(t, &all, (const uint8_t *)h->data, strlen(h->data));
    }
    rc = rc == 0 ? hf_buf_append(&all, "", 1) : rc;
    t->has_cookies = rc == 0 && all.len > 1;
    const char *text = t->has_cookies ? (const char *)all.data : NULL;
    if (c->curl_easy_setopt(t->easy, CURLOPT_COOKIE, text) != 0) {
        rc = HF_ENOMEM;
    }
    hf_buf_free(&all);
    return rc;
}

/* --- method and body ---------------------------------------------------------------
 */

static int set_custom(hf_transfer *t, hf_slice m) {
    char name[64];
    if (m.n >= sizeof name) {
        return HF_EINVAL;
    }
    memcpy(name, m.p, m.n);
    name[m.n] = '\0';
    const hf_curl *c = t->identity->loop->curl;
    int rc = c->curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, name);
    return rc == 0 ? 0 : HF_ENOMEM;
}

static int set_method(hf_transfer *t, hf_slice body) {
    const hf_curl *c = t->identity->loop->curl;
    hf_slice m = hf_shape_method(t);
    bool plain = body.p == NULL && slice_is(m, "GET");
    if (plain && !t->shaped) {
        return 0;
    }
    c->curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
    c->curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, (char *)NULL);
    t->shaped = !plain;
    if (plain) {
        return 0;
    }
    if (body.p != NULL) {
        c->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
        c->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, (const char *)body.p);
    } else if (slice_is(m, "HEAD")) {
        c->curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
        return 0;
    } else if (slice_is(m, "POST")) {
        c->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        c->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, "");
    }
    return slice_is(m, "POST") ? 0 : set_custom(t, m);
}

/* libcurl's own limits are a second opinion: they lie behind ours. Its connect limit is
 * five minutes unless told, which would cut a longer one of ours. */
static void set_limits(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    int64_t ms = t->req->limits.hard / 1000 + 1000;
    if (ms == t->set_hard) {
        return;
    }
    t->set_hard = ms;
    c->curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)ms);
    c->curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)ms);
}

static void set_fresh(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    if (t->is_fresh == t->req->fresh) {
        return;
    }
    t->is_fresh = t->req->fresh;
    c->curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, (long)t->is_fresh);
}

int hf_shape_hop(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    hf_slice body = body_of(t);
    if (c->curl_easy_setopt(t->easy, CURLOPT_URL, t->url->text) != 0) {
        return HF_ENOMEM;
    }
    set_limits(t);
    set_fresh(t);
    int rc = set_method(t, body);
    rc = rc == 0 ? set_headers(t, body) : rc;
    return rc == 0 ? set_cookies(t) : rc;
}

void hf_shape_clear(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    if (t->headers != NULL) {
        c->curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->identity->headers);
        c->curl_slist_free_all(t->headers);
        t->headers = NULL;
    }
    if (t->shaped) {
        c->curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, (char *)NULL);
        c->curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        c->curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, (char *)NULL);
        t->shaped = false;
    }
}
