#include "transfer.h"

#include <stdlib.h>
#include <string.h>

#include "loop.h"
#include "shape.h"
#include "transfer_parts.h"

/* Bytes of a redirect's body read for the sake of the connection; past that it is
 * cheaper to open another. */
#define DISCARD_MOST 65536
/* us that it is waited for, for the same sake. */
#define PASS_TIME 300000

/* Bytes of header lines that a handle may keep. libcurl stores them with it until it is
 * used again, and keeps room for the longest for good: one large head on each handle,
 * however rarely they come, would be 300 KB times the concurrency. */
#define LINES_MOST 16384

/* --- life --------------------------------------------------------------------------
 */

int hf_transfer_new(hf_identity *id, hf_transfer **out, hf_errbuf err) {
    hf_transfer *t = calloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL) {
        return HF_ENOMEM;
    }
    t->identity = id;
    t->fd = -1;
    t->easy = id->loop->curl->curl_easy_init();
    if (t->easy == NULL) {
        free(t);
        return HF_ENOMEM;
    }
    int rc = hf_identity_dress(id, t, err);
    if (rc != 0) {
        hf_transfer_free(t);
        return rc;
    }
    t->all = id->all;
    t->at = &id->all;
    if (t->all != NULL) {
        t->all->at = &t->all;
    }
    id->all = t;
    *out = t;
    return 0;
}

void hf_transfer_free(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    if (t->at != NULL) {
        *t->at = t->all;
    }
    if (t->at != NULL && t->all != NULL) {
        t->all->at = t->at;
    }
    if (t->decoder != NULL) {
        hf_decoders_give(&t->identity->loop->decoders, t->decoder);
    }
    c->curl_easy_cleanup(t->easy);
    c->curl_slist_free_all(t->headers);
    free(t->why);
    free(t);
}

/* A connection outlives the transfer that opened it. */
static void leave_sockets(hf_transfer *t) {
    while (t->fd >= 0) {
        hf_sock *s = hf_poller_find(&t->identity->loop->poller, t->fd);
        if (s == NULL || s->opener != t) {
            break;
        }
        s->opener = NULL;
        t->fd = s->next_fd;
    }
    t->fd = -1;
}

static void reset_hop(hf_transfer *t, int64_t now) {
    leave_sockets(t);
    t->hop_start = now;
    t->sent_at = 0;
    t->last_byte = 0;
    t->discarded = 0;
    t->counted = 0;
    t->heard_at = 0;
    t->stop = HF_STOP_NONE;
    t->stop_errno = 0;
    t->asked = t->refused = false;
    t->opened = t->resolved = t->connected = false;
    t->stood = t->heard = t->unsent = false;
    t->tls_began = t->tls_bytes = t->tls_garbage = false;
    t->got_bytes = t->discard = t->body_begun = t->idles = false;
}

int hf_transfer_start(hf_transfer *t, hf_request *r, int64_t now) {
    t->req = r;
    t->resp = r->response;
    t->url = hf_request_url(r);
    r->transfer = t;
    free(r->proxy_shown);
    r->proxy_shown = NULL;
    if (t->identity->proxy.url != NULL) {
        r->proxy_shown = strdup(t->identity->proxy.url);
        if (r->proxy_shown == NULL) {
            return HF_ENOMEM;
        }
    }
    t->lines = 0;
    reset_hop(t, now);
    return hf_shape_hop(t);
}

int hf_transfer_hop(hf_transfer *t, int64_t now) {
    t->url = &t->resp->final;
    hf_response_new_hop(t->resp);
    reset_hop(t, now);
    return hf_shape_hop(t);
}

/* Of a head that did not come whole the last line may be a long one, of which libcurl
 * has told nothing. A new handle costs 8 us, less than the connection that is gone. */
static bool keeps_much(const hf_transfer *t) {
    bool cut = t->sent_at > 0 && !t->resp->head_done;
    return cut || t->lines > LINES_MOST;
}

void hf_transfer_rest(hf_transfer *t) {
    hf_loop *l = t->identity->loop;
    if (t->decoder != NULL) {
        hf_decoders_give(&l->decoders, t->decoder);
        t->decoder = NULL;
    }
    leave_sockets(t);
    hf_shape_clear(t);
    bool ends = keeps_much(t);
    t->req = NULL;
    t->resp = NULL;
    t->url = NULL;
    if (ends) {
        hf_transfer_free(t);
        return;
    }
    t->next = t->identity->idle;
    t->identity->idle = t;
}

/* --- limits ------------------------------------------------------------------------
 */

static void sooner(int64_t at, int kind, int64_t *best, int *due) {
    if (at < *best) {
        *best = at;
        *due = kind;
    }
}

int64_t hf_transfer_next_due(const hf_transfer *t, int *due) {
    const hf_limits *l = &t->req->limits;
    int64_t start = t->req->attempt_start;
    int64_t best = HF_NEVER;
    *due = HF_DUE_NONE;
    sooner(start + l->hard, HF_DUE_HARD, &best, due);
    sooner(start + l->soft, HF_DUE_SOFT, &best, due);
    sooner(t->req->job_due, HF_DUE_JOB, &best, due);
    if (t->sent_at == 0 && l->connect > 0) {
        sooner(t->hop_start + l->connect, HF_DUE_CONNECT, &best, due);
    }
    if (t->discard) {
        sooner(t->pass_at, HF_DUE_PASS, &best, due);
    }
    if (t->sent_at > 0 && !t->got_bytes && !t->heard && l->first_byte > 0) {
        sooner(t->sent_at + l->first_byte, HF_DUE_FIRST_BYTE, &best, due);
    }
    if (t->sent_at > 0 && l->idle > 0 && !t->discard) {
        int64_t since = t->last_byte > 0 ? t->last_byte : t->sent_at;
        sooner(since + l->idle, HF_DUE_IDLE, &best, due);
    }
    return best;
}

int64_t hf_transfer_up(hf_transfer *t, int *due) {
    int64_t at = hf_transfer_next_due(t, due);
    if (at > t->identity->loop->now ||
        (*due != HF_DUE_FIRST_BYTE && *due != HF_DUE_IDLE)) {
        return at;
    }
    hf_transfer_listen(t);
    return hf_transfer_next_due(t, due);
}

void hf_transfer_tighten(hf_transfer *t) {
    const hf_limits *l = &t->req->limits;
    if (l->first_byte == 0 && l->idle == 0 && !t->discard) {
        return;
    }
    int due;
    int64_t at = hf_transfer_next_due(t, &due);
    if (at < t->req->due.at) {
        hf_heap_set(&t->identity->loop->shard->heap, &t->req->due, at);
    }
}

/* --- callbacks for the response, in life order
 * ------------------------------------------------------
 */

static void note_byte(hf_transfer *t) {
    t->last_byte = t->identity->loop->now;
    t->identity->loop->steps++;
    if (!t->got_bytes) {
        t->got_bytes = true;
        hf_transfer_tighten(t);
        if (t->opened && t->url->tls) {
            hf_sessions_note(t->identity);
        }
    }
}

static int stop_for(int rc) {
    return rc == HF_EFULL ? HF_STOP_HEAD : HF_STOP_MEMORY;
}

/* Answers come in turn over this connection, so nothing may come between them. */
static void note_http1(hf_transfer *t) {
    hf_sock *s = t->fd >= 0 ? hf_poller_find(&t->identity->loop->poller, t->fd) : NULL;
    if (s != NULL && s->tls) {
        s->http1 = t->resp->http_version < 20;
    }
}

bool hf_transfer_passes_over(const hf_transfer *t) {
    int32_t most = t->identity->loop->settings->c.max_redirects;
    return t->resp->head_done && hf_response_redirects(t->resp) &&
           t->resp->n_hops < most;
}

/* Of a redirect that can't be followed the answer is kept. */
static bool leads_on(const hf_transfer *t) {
    const hf_response *r = t->resp;
    hf_url next;
    int rc =
        hf_url_resolve(t->identity->loop->curl, t->url, r->head.data + r->location.at,
                       r->location.len, &next, (hf_errbuf){NULL, 0});
    hf_url_free(&next);
    return rc != HF_EINVAL;
}

/* Of a redirect that is followed nobody wants the body, nor waits for it. */
static void end_head(hf_transfer *t) {
    note_http1(t);
    t->discard = hf_transfer_passes_over(t) && leads_on(t);
    if (t->discard) {
        t->pass_at = t->last_byte + PASS_TIME;
        hf_transfer_tighten(t);
    }
}

static size_t on_header(char *p, size_t size, size_t n, void *data) {
    hf_transfer *t = data;
    ENTER(t, 0);
    size_t len = size * n;
    note_byte(t);
    t->lines += (int64_t)len;
    /* Behind the head come trailers, which are no headers of the response. */
    if (!t->resp->head_done) {
        int rc = hf_response_header(t->resp, (const uint8_t *)p, len);
        if (rc == 0 && t->resp->head_done) {
            end_head(t);
        } else if (rc != 0 || t->resp->switches) {
            t->stop = rc != 0 ? stop_for(rc) : HF_STOP_HEADLESS;
            len = len == 0 ? 1 : 0;
        }
    }
    LEAVE(t);
    return len;
}

static int begin_body(hf_transfer *t) {
    hf_loop *l = t->identity->loop;
    hf_response *r = t->resp;
    t->body_begun = true;
    if (!t->discard) {
        hf_spares_lend(&l->shard->spares, &r->body);
    }
    if (t->discard || r->encoding.len == 0 || !l->curl->decodes) {
        return 0;
    }
    t->decoder = hf_decoders_take(&l->decoders, l->curl, l->settings->c.max_ratio);
    if (t->decoder == NULL) {
        return HF_STOP_MEMORY;
    }
    int rc = hf_decoder_start(t->decoder, r->encoding.data, r->encoding.len);
    return rc == HF_ENOMEM ? HF_STOP_MEMORY : HF_STOP_NONE;
}

static int decode(hf_transfer *t, const uint8_t *p, size_t n) {
    switch (hf_decoder_write(t->decoder, p, n, &t->resp->body)) {
    case 0:
        return HF_STOP_NONE;
    case HF_EFULL:
        return HF_STOP_SIZE;
    case HF_EBAD:
        return HF_STOP_ENCODING;
    default:
        return HF_STOP_MEMORY;
    }
}

static int keep(hf_transfer *t, const uint8_t *p, size_t n) {
    int64_t kept = hf_buf_append_some(&t->resp->body, p, n);
    if (kept < 0) {
        return HF_STOP_MEMORY;
    }
    return (size_t)kept < n ? HF_STOP_SIZE : HF_STOP_NONE;
}

static int take_body(hf_transfer *t, const uint8_t *p, size_t n) {
    const hf_config *c = &t->identity->loop->settings->c;
    hf_response *r = t->resp;
    if (!r->head_done) {
        return HF_STOP_HEADLESS;
    }
    if (!t->body_begun) {
        int stop = begin_body(t);
        if (stop != HF_STOP_NONE) {
            return stop;
        }
    }
    if (t->discard) {
        t->discarded += (int64_t)n;
        return t->discarded > DISCARD_MOST ? HF_STOP_DISCARD : HF_STOP_NONE;
    }
    uint64_t room = (uint64_t)c->max_wire - r->wire_size;
    bool over = n > room;
    size_t take = over ? (size_t)room : n;
    r->wire_size += take;
    int stop = t->decoder != NULL ? decode(t, p, take) : keep(t, p, take);
    return stop == HF_STOP_NONE && over ? HF_STOP_SIZE : stop;
}

static size_t on_body(char *p, size_t size, size_t n, void *data) {
    hf_transfer *t = data;
    ENTER(t, 0);
    size_t len = size * n;
    note_byte(t);
    t->stop = len > 0 ? take_body(t, (const uint8_t *)p, len) : t->stop;
    bool stopped = t->stop != HF_STOP_NONE;
    LEAVE(t);
    return stopped ? (size_t)CURL_WRITEFUNC_ERROR : len;
}

void hf_transfer_set_callbacks(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    CURL *e = t->easy;
    c->curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    c->curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    c->curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    c->curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    c->curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    hf_connect_set_callbacks(t);
}
