/* How an attempt ends: libcurl's result becomes an outcome, or the next hop.
 *
 * The second half of transfer.h, apart from options and callbacks. Everything is found
 * from phases, codes and numbers, never from texts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"
#include "shape.h"
#include "tcpstate.h"
#include "transfer_parts.h"
#include "urlsafe.h"

/* libcurl's caps of a head and of one line in it (its http.h), in bytes. */
#define HEAD_CAP ((size_t)300 * 1024)
#define LINE_CAP ((size_t)100 * 1024)
/* nghttp2 takes a block of 9 frames, 16 KiB each, packed; a little before that it is
 * the likely cause of an error without a name. */
#define H2_HEAD_CAP ((size_t)120 * 1024)

/* --- facts -------------------------------------------------------------------------
 */

static long info_long(const hf_transfer *t, int what) {
    long v = 0;
    t->identity->loop->curl->curl_easy_getinfo(t->easy, what, &v);
    return v;
}

/* us since the start of the attempt, which may have had hops before this one. */
static int64_t info_time(const hf_transfer *t, int what) {
    curl_off_t v = 0;
    t->identity->loop->curl->curl_easy_getinfo(t->easy, what, &v);
    return v + (t->hop_start - t->req->attempt_start);
}

static bool proxied(const hf_transfer *t) {
    return t->identity->proxy.url != NULL;
}

static bool socks(const hf_transfer *t) {
    return proxied(t) && t->identity->proxy.scheme >= HF_PROXY_SOCKS4;
}

/* How far the hop came. libcurl's own times don't tell: it sets some of them also where
 * connecting timed out. */
static int reached(const hf_transfer *t, long connectcode) {
    if (t->sent_at > 0) {
        if (t->resp->head_done) {
            return HF_P_BODY;
        }
        return t->got_bytes || t->heard ? HF_P_HEADERS : HF_P_FIRST_BYTE;
    }
    if (!t->resolved) {
        return HF_P_DNS;
    }
    if (!t->connected) {
        return HF_P_CONNECT;
    }
    /* The status of an answer to CONNECT is known before the answer is complete. */
    bool tunnelled = t->sees_tls ? t->tls_began : connectcode / 100 == 2;
    if (proxied(t) && !tunnelled) {
        return HF_P_PROXY;
    }
    return t->url->tls ? HF_P_TLS : HF_P_SEND;
}

static void look_at_sockets(hf_transfer *t) {
    if (!t->got_bytes) {
        hf_transfer_listen(t);
    }
    int fd = t->got_bytes ? -1 : t->fd;
    while (fd >= 0) {
        hf_sock *s = hf_poller_find(&t->identity->loop->poller, fd);
        hf_transfer_note_state(t, fd);
        fd = s != NULL && s->opener == t ? s->next_fd : -1;
    }
}

static void note_times(hf_transfer *t, int64_t now) {
    hf_response *r = t->resp;
    bool sent = t->sent_at > 0;
    if (t->resolved || sent) {
        r->dns = info_time(t, CURLINFO_NAMELOOKUP_TIME_T);
    }
    if (t->connected || sent) {
        r->connect = info_time(t, CURLINFO_CONNECT_TIME_T);
    }
    if (sent && t->url->tls) {
        r->tls = info_time(t, CURLINFO_APPCONNECT_TIME_T);
    }
    if (t->got_bytes) {
        r->first_byte = info_time(t, CURLINFO_STARTTRANSFER_TIME_T);
    }
    r->total = now - t->req->attempt_start;
}

/* Whether it was HTTP/2's doing that nothing, or half a head, came over TLS: on a
 * connection that still stands; or on one that had served before, for libcurl would
 * have tried an HTTP/1 request again. */
static bool by_http2(const hf_transfer *t, int code, long os_errno) {
    if (t->resp->http_version == 20 && t->url->tls) {
        return true;
    }
    long version = t->identity->http_version;
    if (version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1) {
        return false;
    }
    return code == CURLE_RECV_ERROR && os_errno == 0 && t->url->tls && !t->got_bytes &&
           (t->stood || !t->opened);
}

/* libcurl has refused the first line of the answer without showing it to us. */
static void note_refused(hf_transfer *t, int code) {
    if (!t->heard && t->sent_at > 0 &&
        (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)) {
        t->heard = true;
        t->heard_at = t->identity->loop->now;
    }
}

/* Where QUIC was tried beside TCP, the code tells of QUIC although TCP came further. */
static bool beside_quic(const hf_transfer *t, int code) {
    return code == CURLE_COULDNT_CONNECT && t->connected && !proxied(t) &&
           t->identity->http_version == CURL_HTTP_VERSION_3;
}

/* BoringSSL's and OpenSSL's X509_V_ERR_UNSPECIFIED: libcurl starts from it. Another
 * result, a good one too, is of a certificate that was looked at. */
#define NOT_VERIFIED 1L

static bool untrusted(const hf_transfer *t, int code) {
    return code == CURLE_PEER_FAILED_VERIFICATION ||
           (beside_quic(t, code) &&
            info_long(t, CURLINFO_SSL_VERIFYRESULT) != NOT_VERIFIED);
}

/* Whether BoringSSL found no TLS where nobody had looked at the bytes before it: its
 * error code is all that libcurl passes on of that, in words. */
static bool met_garbage(const hf_transfer *t) {
    enum { UNEXPECTED_RECORD = 0x100000e1, WRONG_VERSION_NUMBER = 0x100000f7 };
    const char *at = t->why != NULL ? strstr(t->why, "error:10") : NULL;
    unsigned long code = at != NULL ? strtoul(at + 6, NULL, 16) : 0;
    return !t->tls_bytes && (code == UNEXPECTED_RECORD || code == WRONG_VERSION_NUMBER);
}

static bool is_full(const hf_transfer *t) {
    size_t most = t->resp->http_version == 20 ? H2_HEAD_CAP : HEAD_CAP - LINE_CAP;
    return t->resp->head.len > most;
}

static void fill_ending(hf_transfer *t, int code, int due, hf_ending *e) {
    long connectcode = proxied(t) ? info_long(t, CURLINFO_HTTP_CONNECTCODE) : 0;
    long os_errno = code != 0 ? info_long(t, CURLINFO_OS_ERRNO) : 0;
    look_at_sockets(t);
    note_refused(t, code);
    if (t->heard && !t->got_bytes) {
        t->resp->first_byte = t->heard_at - t->req->attempt_start;
    }
    *e = (hf_ending){.curl_code = code,
                     .os_errno = t->stop_errno != 0 ? t->stop_errno : (int32_t)os_errno,
                     .due = due,
                     .connectcode = (int32_t)connectcode,
                     .status = t->resp->status,
                     .proxied = proxied(t),
                     .socks = socks(t),
                     .tunnel = proxied(t) && (t->url->tls || socks(t)),
                     .tls = hf_transfer_encrypted(t),
                     .tls_garbage = t->tls_garbage || met_garbage(t),
                     .got_bytes = t->got_bytes || t->heard,
                     .head_full = is_full(t),
                     .chunked = t->resp->chunked,
                     .http2 = by_http2(t, code, os_errno),
                     .stood = t->stood,
                     .some_body = t->resp->wire_size > 0,
                     .body_started = t->resp->head_done,
                     .reused = t->resp->reused};
    if (code == CURLE_PROXY) {
        e->proxy_error = (int32_t)info_long(t, CURLINFO_PROXY_ERROR);
    }
    e->phase = reached(t, connectcode);
    e->untrusted = untrusted(t, code);
    if (e->untrusted && !proxied(t)) {
        /* QUIC has no connection before it is secure. */
        e->phase = HF_P_TLS;
    } else if (code == CURLE_COULDNT_CONNECT && !proxied(t) && !beside_quic(t, code)) {
        /* A reset right behind the handshake may come before libcurl looks. */
        e->phase = HF_P_CONNECT;
    }
    if (e->untrusted) {
        bool proxys = e->phase <= HF_P_PROXY;
        e->verify = (int32_t)info_long(t, proxys ? CURLINFO_PROXY_SSL_VERIFYRESULT
                                                 : CURLINFO_SSL_VERIFYRESULT);
    }
    if (code == CURLE_SEND_ERROR && e->phase == HF_P_FIRST_BYTE) {
        e->phase = HF_P_SEND;
    }
}

/* --- bodies ------------------------------------------------------------------------
 */

static bool is_get(const hf_transfer *t) {
    hf_slice m = hf_shape_method(t);
    return m.n == 3 && memcmp(m.p, "GET", 3) == 0;
}

static bool is_head(const hf_transfer *t) {
    hf_slice m = hf_shape_method(t);
    return m.n == 4 && memcmp(m.p, "HEAD", 4) == 0;
}

static void note_decoded(hf_transfer *t) {
    if (t->decoder != NULL) {
        const hf_decode_state *st = hf_decoder_state(t->decoder);
        t->resp->decoded = st->stages > 0 && !st->unknown && !st->raw;
    }
}

static void bad_encoding(hf_outcome *o) {
    hf_outcome_set(o, HF_T_BAD_ENCODING, HF_P_DECODE, HF_O_SITE, NULL);
    o->truncated = HF_TRUNC_DECODE;
}

static void cut_short(hf_outcome *o) {
    hf_outcome_set(o, HF_T_INCOMPLETE, HF_P_BODY, HF_O_SITE, NULL);
    o->truncated = HF_TRUNC_FRAMING;
}

/* The exchange went well; what remains is whether the encoding came to its end. */
static void whole(hf_transfer *t, hf_outcome *o) {
    int rc = t->decoder != NULL ? hf_decoder_finish(t->decoder, &t->resp->body) : 0;
    hf_outcome_ok(o);
    if (t->resp->endless && !is_head(t)) {
        cut_short(o);
    } else if (rc == HF_EBAD) {
        bad_encoding(o);
    } else if (rc == HF_EFULL) {
        o->truncated = HF_TRUNC_SIZE;
    } else if (rc != 0) {
        hf_outcome_set(o, HF_T_OUT_OF_MEMORY, HF_P_DECODE, HF_O_LOCAL, NULL);
    }
    note_decoded(t);
}

static void stopped(hf_transfer *t, hf_outcome *o) {
    switch (t->stop) {
    case HF_STOP_SIZE:
        hf_outcome_ok(o);
        o->truncated = HF_TRUNC_SIZE;
        break;
    case HF_STOP_HEAD:
        hf_outcome_set(o, HF_T_HEADERS_TOO_LARGE, HF_P_HEADERS, HF_O_SITE, NULL);
        break;
    case HF_STOP_HEADLESS:
        hf_outcome_set(o, HF_T_BAD_RESPONSE, HF_P_HEADERS, HF_O_SITE, NULL);
        break;
    case HF_STOP_ENCODING:
        bad_encoding(o);
        break;
    case HF_STOP_REPEAT:
        hf_outcome_set(o, HF_T_EMPTY_REPLY, HF_P_FIRST_BYTE, HF_O_SITE, NULL);
        break;
    case HF_STOP_BLOCKED:
        hf_outcome_set(o, HF_T_BLOCKED_ADDRESS, HF_P_CONNECT, HF_O_LOCAL, NULL);
        break;
    default:
        hf_outcome_set(o, HF_T_OUT_OF_MEMORY, HF_P_BODY, HF_O_LOCAL, NULL);
        break;
    }
    note_decoded(t);
}

/* How much is missing, where the answer told its length. */
static void tell_length(const hf_transfer *t, hf_outcome *o) {
    curl_off_t length = -1;
    t->identity->loop->curl->curl_easy_getinfo(
        t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length > 0 && (uint64_t)length > t->resp->wire_size) {
        snprintf(o->message, sizeof o->message,
                 "the response was cut off after %" PRIu64 " of %" PRId64 " bytes",
                 t->resp->wire_size, (int64_t)length);
    }
}

static void failed(hf_transfer *t, int code, hf_outcome *o) {
    hf_ending e;
    fill_ending(t, code, HF_DUE_NONE, &e);
    hf_outcome_classify(&e, o);
    if (e.connectcode != 0 && o->phase == HF_P_PROXY) {
        hf_transfer_note_refusal(t);
    }
    if (o->type == HF_T_INCOMPLETE && o->truncated == HF_TRUNC_DISCONNECT) {
        tell_length(t, o);
    }
    if (t->decoder != NULL) {
        /* What was held back is still a prefix of the body. */
        hf_decoder_finish(t->decoder, &t->resp->body);
    }
    note_decoded(t);
}

/* --- redirects ---------------------------------------------------------------------
 */

static bool is_post(const hf_transfer *t) {
    hf_slice m = hf_shape_method(t);
    return m.n == 4 && memcmp(m.p, "POST", 4) == 0;
}

/* 303 asks for GET; 301 and 302 turn POST into GET, as every browser does (fetch
 * standard, HTTP-redirect fetch, step 12). */
static bool turns_to_get(const hf_transfer *t, int status) {
    if (status == 303) {
        return !is_head(t) && !is_get(t);
    }
    return (status == 301 || status == 302) && is_post(t);
}

/* Same method and URL again, and no new cookie that could make a difference. */
static bool was_there(const hf_transfer *t, const hf_url *next, bool get) {
    const hf_response *r = t->resp;
    bool keeps_cookies = t->identity->cookies;
    for (int32_t i = 0; i < r->n_hops; i++) {
        if (keeps_cookies && r->hops[i].cookies != r->cookies) {
            continue;
        }
        if (r->hops[i].get == get && strcmp(r->hops[i].url, next->shown) == 0) {
            return true;
        }
    }
    return false;
}

static bool refuse(hf_outcome *o, int type, const char *why) {
    int origin = HF_O_SITE;
    hf_outcome_set(o, type, HF_P_HEADERS, origin, why != NULL ? "%s" : NULL, why);
    return false;
}

/* Keeps the hop for the record, without a password that its Location holds. */
static int note_hop(hf_transfer *t, const hf_url *next, const uint8_t *location,
                    size_t n) {
    hf_buf safe = hf_buf_make(SIZE_MAX / 4);
    int rc = 0;
    if (next->has_password) {
        rc = hf_url_redact(location, n, &safe);
        location = safe.data;
        n = safe.len;
    }
    if (rc == 0) {
        rc = hf_response_hop(t->resp, t->url->shown, is_get(t), location, n);
    }
    hf_buf_free(&safe);
    return rc;
}

static bool take_hop(hf_transfer *t, hf_url *next, const uint8_t *location, size_t n,
                     hf_outcome *o) {
    hf_response *r = t->resp;
    bool to_get = turns_to_get(t, r->status);
    if (note_hop(t, next, location, n) != 0) {
        hf_url_free(next);
        hf_outcome_set(o, HF_T_OUT_OF_MEMORY, HF_P_HEADERS, HF_O_LOCAL, NULL);
        return false;
    }
    if (was_there(t, next, is_get(t) || to_get)) {
        hf_url_free(next);
        return refuse(o, HF_T_REDIRECT_LOOP, NULL);
    }
    t->resp->strip |= !hf_url_same_origin(t->url, next);
    t->resp->to_get |= to_get;
    hf_url_free(&r->final);
    r->final = *next;
    return true;
}

/* Decides on a complete 3xx. Returns true when next is to be fetched. */
static bool follow(hf_transfer *t, hf_outcome *o) {
    hf_loop *l = t->identity->loop;
    hf_response *r = t->resp;
    char why[160];
    hf_errbuf err = {why, sizeof why};
    hf_url next;
    if (r->n_hops >= l->settings->c.max_redirects) {
        return refuse(o, HF_T_TOO_MANY_REDIRECTS, NULL);
    }
    const uint8_t *location = r->head.data + r->location.at;
    int rc = hf_url_resolve(l->curl, t->url, location, r->location.len, &next, err);
    if (rc == HF_EINVAL) {
        return refuse(o, HF_T_BAD_REDIRECT, why);
    }
    if (rc != 0) {
        hf_outcome_set(o, HF_T_OUT_OF_MEMORY, HF_P_HEADERS, HF_O_LOCAL, NULL);
        return false;
    }
    if (!take_hop(t, &next, location, r->location.len, o)) {
        return false;
    }
    hf_stat_add(&l->shard->counts.redirects, 1);
    return true;
}

/* --- the ends ----------------------------------------------------------------------
 */

/* A proxy that forwards requests in clear asks for credentials in the site's place. */
static bool proxy_asks(const hf_transfer *t) {
    return t->resp->status == 407 && proxied(t) && !socks(t) && !t->url->tls;
}

bool hf_transfer_end(hf_transfer *t, int code, int64_t now) {
    hf_outcome *o = &t->req->outcome;
    hf_response *r = t->resp;
    note_times(t, now);
    if (t->stop == HF_STOP_DISCARD ||
        (code != CURLE_OK && hf_transfer_passes_over(t))) {
        code = CURLE_OK;
    } else if (t->stop != HF_STOP_NONE) {
        stopped(t, o);
        return false;
    }
    /* libcurl takes a head that was cut off for a whole one. */
    if (code != CURLE_OK || !r->head_done) {
        if (code == CURLE_UNSUPPORTED_PROTOCOL) {
            /* It has refused the status line, after showing it to us. */
            hf_response_new_head(r);
        }
        failed(t, code, o);
        return false;
    }
    whole(t, o);
    if (proxy_asks(t)) {
        int32_t truncated = o->truncated;
        hf_outcome_set(o, HF_T_PROXY_AUTH, HF_P_PROXY, HF_O_PROXY, NULL);
        o->truncated = truncated;
        return false;
    }
    if (hf_response_redirects(r) && t->identity->loop->settings->c.max_redirects >= 0) {
        return follow(t, o);
    }
    return false;
}

void hf_transfer_expire(hf_transfer *t, int due, int64_t at, int64_t now) {
    hf_ending e;
    fill_ending(t, 0, due, &e);
    note_times(t, now);
    hf_outcome_classify(&e, &t->req->outcome);
    t->req->outcome.overrun = now - at;
    hf_shard_note_overrun(t->identity->loop->shard, now - at);
    if (t->decoder != NULL) {
        hf_decoder_finish(t->decoder, &t->resp->body);
        note_decoded(t);
    }
}

void hf_transfer_abort(hf_transfer *t, int type, int64_t now) {
    hf_ending e;
    fill_ending(t, 0, HF_DUE_NONE, &e);
    note_times(t, now);
    hf_outcome_set(&t->req->outcome, type, e.phase, HF_O_LOCAL, NULL);
    t->req->outcome.truncated = t->resp->head_done ? HF_TRUNC_TIME : HF_TRUNC_NONE;
}
