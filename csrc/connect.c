/* The way to a connection: libcurl's callbacks from asking for a name to sending the
 * request, and closing it. The first half of transfer.h's callbacks, in life order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"
#include "shape.h"
#include "tcpstate.h"
#include "transfer_parts.h"

/* us by which the kernel's word of when the last byte came may be late. */
#define COARSE 20000

bool hf_transfer_encrypted(const hf_transfer *t) {
    const hf_proxy *proxy = &t->identity->proxy;
    return t->url->tls || (proxy->url != NULL && proxy->scheme == HF_PROXY_HTTPS);
}

/* An answer costs 150 us and stays with libcurl, a refusal 40 us for each connection.
 * So most hosts are never asked for, one of which many connections are made is asked
 * for with the fifth, and while others are made at the same time they are still
 * refused. */
#define ASKING 4
#define REFUSALS 64

/* Whether libcurl's first query for a name is the one for its HTTPS record, of which
 * nobody has use: grease needs no keys, and HTTP/3 is tried when asked for. */
static bool is_spare(const hf_transfer *t) {
    const hf_loop *l = t->identity->loop;
    return t->url->tls && t->identity->proxy.url == NULL &&
           t->req->host->known_until != HF_NEVER && l->settings->c.ech != HF_ECH_DNS &&
           l->refusing >= 0;
}

/* A resolver of libcurl's own is about to be used. For https there are two queries, and
 * libcurl goes on without the HTTPS record as if there was none. */
static int on_resolve(void *resolver, void *reserved, void *data) {
    hf_transfer *t = data;
    (void)reserved;
    ENTER(t, 1);
    bool refuse = false;
    if (resolver != NULL && !t->asked && !t->resolved && is_spare(t)) {
        uint32_t made = t->req->host->tls_made++;
        refuse = made != ASKING && made < REFUSALS;
    }
    t->asked = true;
    t->refused |= refuse;
    LEAVE(t);
    return refuse;
}

bool hf_transfer_misled(hf_transfer *t, int code) {
    hf_loop *l = t->identity->loop;
    if (code != CURLE_ABORTED_BY_CALLBACK || !t->refused || t->resolved) {
        return false;
    }
    t->refused = false;
    /* Else it may just be that libcurl had kept the record longer than the address. */
    if (l->refusing == 0 && t->req->host->tls_made <= ASKING) {
        l->refusing = -1;
    }
    return true;
}

/* It has an address. libcurl connects to the first, but lets others have them only once
 * the other family has answered too; it does not wait for that when it is connected. */
static void note_name(hf_transfer *t, bool connected) {
    hf_loop *l = t->identity->loop;
    curl_off_t looked_up = 0;
    l->curl->curl_easy_getinfo(t->easy, CURLINFO_NAMELOOKUP_TIME_T, &looked_up);
    if (looked_up > 0 || connected) {
        hf_schedule_named(&l->shard->schedule, t->req, looked_up > 0, l->now);
    }
}

static void adopt(hf_transfer *t, int fd, hf_sock *s) {
    s->opener = t;
    s->next_fd = t->fd;
    t->fd = fd;
}

/* A connection is used again. How one under TLS ends tells broken framing from a cut,
 * so somebody has to look at it; in clear libcurl's code tells. And what has come
 * before the request is no answer to it. */
static void take_over(hf_transfer *t) {
    hf_poller *p = &t->identity->loop->poller;
    curl_socket_t fd = CURL_SOCKET_BAD;
    t->identity->loop->curl->curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd);
    hf_sock *s = fd >= 0 ? hf_poller_find(p, fd) : NULL;
    if (s == NULL || !s->ours) {
        return;
    }
    if (s->http1 && !s->dead && hf_tcp_unread(fd)) {
        hf_poller_discard(p, fd, s);
    }
    t->unsent = s->dead;
    if (s->opener == NULL && hf_transfer_encrypted(t)) {
        adopt(t, fd, s);
    }
}

static curl_socket_t open_socket(hf_transfer *t, const struct curl_sockaddr *a) {
    hf_loop *l = t->identity->loop;
    t->resolved = t->identity->named = true;
    if (t->refused) {
        l->refusing = 1;
    }
    if (t->req->asks) {
        note_name(t, false);
    }
    if (l->settings->c.deny_private && !hf_addr_public(&a->addr, &l->settings->nets)) {
        t->stop = HF_STOP_BLOCKED;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
    if (fd < 0) {
        t->stop_errno = errno;
        return CURL_SOCKET_BAD;
    }
    hf_sock *s = hf_poller_opened(&l->poller, fd, hf_transfer_encrypted(t));
    if (s == NULL) {
        close(fd);
        t->stop_errno = ENOMEM;
        return CURL_SOCKET_BAD;
    }
    hf_stat_add(&l->shard->counts.connects, 1);
    adopt(t, fd, s);
    t->opened = true;
    return fd;
}

static curl_socket_t on_open(void *data, int purpose, struct curl_sockaddr *a) {
    hf_transfer *t = data;
    (void)purpose;
    ENTER(t, CURL_SOCKET_BAD);
    curl_socket_t fd = open_socket(t, a);
    LEAVE(t);
    return fd;
}

static void hear(hf_transfer *t, int64_t at) {
    if (!t->heard) {
        t->heard = true;
        t->heard_at = at > t->sent_at ? at : t->sent_at;
    }
}

/* In clear, bytes after the request are a response, even if libcurl saw no line end. */
void hf_transfer_note_state(hf_transfer *t, int fd) {
    hf_tcp_state state = hf_tcp_look(fd);
    t->connected |= state.connected;
    t->stood = state.open || state.unread;
    if (t->sent_at > 0 && !hf_transfer_encrypted(t) && state.received > t->unasked) {
        hear(t, t->identity->loop->now - state.quiet);
    }
}

/* Whether what comes over its connection now is of this exchange and of no other. */
static bool is_alone(const hf_transfer *t, int fd) {
    const hf_sock *s = hf_poller_find(&t->identity->loop->poller, fd);
    int version = t->resp->http_version;
    return !hf_transfer_encrypted(t) || (version > 0 && version < 20) ||
           (s != NULL && s->http1);
}

static int socket_of(const hf_transfer *t) {
    curl_socket_t fd = t->fd;
    if (fd < 0) {
        t->identity->loop->curl->curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd);
    }
    return fd;
}

void hf_transfer_listen(hf_transfer *t) {
    int fd = t->sent_at > 0 ? socket_of(t) : -1;
    if (fd < 0 || !is_alone(t, fd)) {
        return;
    }
    hf_tcp_state state = hf_tcp_look(fd);
    int64_t at = t->identity->loop->now - state.quiet;
    if (state.received <= t->counted || at < t->last_byte) {
        return;
    }
    t->counted = state.received;
    if (t->got_bytes) {
        t->last_byte = at;
    } else if (t->opened ? !hf_transfer_encrypted(t) && state.received > t->unasked
                         : at > t->sent_at + COARSE) {
        t->last_byte = at;
        hear(t, at);
    }
}

static void forget_socket(hf_poller *p, hf_transfer *t, int fd, const hf_sock *s) {
    int *link = &t->fd;
    while (*link >= 0 && *link != fd) {
        hf_sock *other = hf_poller_find(p, *link);
        if (other == NULL) {
            return;
        }
        link = &other->next_fd;
    }
    if (*link == fd) {
        *link = s->next_fd;
    }
}

static int on_close(void *data, curl_socket_t fd) {
    hf_loop *l = data;
    if (!hf_heart_leave(&l->heart)) {
        return close(fd);
    }
    hf_sock *s = hf_poller_find(&l->poller, fd);
    if (s != NULL && s->opener != NULL) {
        hf_transfer_note_state(s->opener, fd);
        forget_socket(&l->poller, s->opener, fd, s);
    }
    hf_poller_closing(&l->poller, fd);
    int rc = close(fd);
    hf_heart_resume(&l->heart);
    return rc;
}

void hf_transfer_peek_tls(hf_transfer *t) {
    uint8_t head[2];
    /* What an https proxy sends is TLS whatever the tunnel holds. */
    if (!t->tls_began || t->tls_bytes || t->fd < 0 ||
        t->identity->proxy.scheme == HF_PROXY_HTTPS) {
        return;
    }
    ssize_t n = recv(t->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        return;
    }
    t->tls_bytes = true;
    /* A record is an alert or a handshake, version 3.x. */
    t->tls_garbage = (head[0] != 0x15 && head[0] != 0x16) || (n > 1 && head[1] != 3);
}

static void note_tls(hf_transfer *t) {
    t->tls_began = true;
    /* A server that speaks before the ClientHello speaks no TLS. */
    hf_transfer_peek_tls(t);
    t->tls_garbage |= t->tls_bytes;
}

/* The TLS handshake is about to begin: with the site, once a tunnel stands; before that
 * with an https proxy. Set for proxied identities, and for a store of TLS sessions. */
static int on_tls(CURL *easy, void *ctx, void *data) {
    hf_transfer *t = data;
    (void)ctx;
    ENTER(t, CURLE_ABORTED_BY_CALLBACK);
    const hf_curl *c = t->identity->loop->curl;
    bool proxied = t->identity->proxy.url != NULL;
    long code = 0;
    c->curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &code);
    if (!proxied || t->identity->proxy.scheme != HF_PROXY_HTTPS || code / 100 == 2) {
        hf_sessions_offer(t->identity, t->url);
        if (proxied) {
            note_tls(t);
        }
    }
    LEAVE(t);
    return CURLE_OK;
}

static void note_peer(hf_transfer *t, const char *ip, int port) {
    hf_response *r = t->resp;
    size_t n = ip != NULL ? strlen(ip) : 0;
    n = n < sizeof r->remote_ip - 1 ? n : sizeof r->remote_ip - 1;
    memcpy(r->remote_ip, ip, n);
    r->remote_ip[n] = '\0';
    r->remote_port = port;
    r->reused = !t->opened;
}

/* Name, TCP, proxy and TLS are through; the request goes out now. */
static int on_ready(void *data, char *ip, char *local_ip, int port, int local_port) {
    hf_transfer *t = data;
    (void)local_ip;
    (void)local_port;
    ENTER(t, CURL_PREREQFUNC_ABORT);
    hf_loop *l = t->identity->loop;
    bool repeats = hf_method_idempotent(hf_shape_method(t));
    if (t->sent_at > 0 && !t->unsent && !repeats) {
        /* A connection that had served before died. libcurl tries any method again,
         * although the server may have read the request: that is for policy. */
        t->stop = HF_STOP_REPEAT;
        LEAVE(t);
        return CURL_PREREQFUNC_ABORT;
    }
    t->sent_at = l->now;
    l->steps++;
    note_peer(t, ip, port);
    /* A tunnel's replies are behind us. An address that was refused, or a socket that
     * was not to be had, made no difference. */
    bool tunnel = t->opened && t->identity->proxy.url != NULL;
    t->unasked = tunnel ? hf_tcp_look(t->fd).received : 0;
    t->stop = HF_STOP_NONE;
    t->stop_errno = 0;
    t->unsent = t->heard = false;
    t->counted = 0;
    if (!t->opened && (hf_transfer_encrypted(t) || !repeats)) {
        take_over(t);
    }
    hf_transfer_tighten(t);
    if (t->req->asks) {
        note_name(t, true);
    }
    if (t->opened && t->url->tls) {
        hf_sessions_note(t->identity);
    }
    LEAVE(t);
    return CURL_PREREQFUNC_OK;
}

/* libcurl keeps the headers of an answer to CONNECT, although it shows them to no
 * callback. */
static bool copy_connect_header(const hf_transfer *t, const char *name, char *out,
                                size_t cap) {
    const hf_curl *c = t->identity->loop->curl;
    struct curl_header *h = NULL;
    if (c->curl_easy_header == NULL ||
        c->curl_easy_header(t->easy, name, 0, CURLH_CONNECT, -1, &h) != 0) {
        return false;
    }
    size_t n = strlen(h->value);
    n = n < cap - 1 ? n : cap - 1;
    memcpy(out, h->value, n);
    out[n] = '\0';
    return n > 0;
}

void hf_transfer_note_refusal(hf_transfer *t) {
    hf_refusal told = {.date = ""};
    if (!copy_connect_header(t, "Retry-After", told.retry_after,
                             sizeof told.retry_after)) {
        return;
    }
    copy_connect_header(t, "Date", told.date, sizeof told.date);
    if (t->resp->refusal == NULL) {
        t->resp->refusal = malloc(sizeof told);
    }
    if (t->resp->refusal != NULL) { /* else it is as if nothing was told */
        *t->resp->refusal = told;
    }
}

void hf_connect_set_callbacks(hf_transfer *t) {
    const hf_curl *c = t->identity->loop->curl;
    CURL *e = t->easy;
    c->curl_easy_setopt(e, CURLOPT_RESOLVER_START_FUNCTION, on_resolve);
    c->curl_easy_setopt(e, CURLOPT_RESOLVER_START_DATA, t);
    c->curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    c->curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
    /* A connection outlives the transfer that opened it. */
    c->curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    c->curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, t->identity->loop);
    c->curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_ready);
    c->curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
    if (t->identity->proxy.url != NULL) {
        t->why = calloc(1, CURL_ERROR_SIZE); /* without it, less is known */
        c->curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
    }
    if (t->identity->proxy.url != NULL || t->identity->sessions.store != NULL) {
        t->sees_tls = c->curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls) == 0;
        c->curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, t);
    }
}
