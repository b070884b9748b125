#include "outcome.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "curlabi.h"

/* CURLPX_… of curl/curl.h, those that tell who is to blame. */
enum {
    PX_IDENTD = 7,
    PX_IDENTD_DIFFER = 8,
    PX_LONG_HOSTNAME = 9,
    PX_LONG_USER = 11,
    PX_NO_AUTH = 12,
    PX_RECV_AUTH = 14,
    PX_REPLY_ADDRESS_TYPE = 17,
    PX_REPLY_REFUSED = 19,
    PX_REPLY_HOST_UNREACHABLE = 21,
    PX_REPLY_NETWORK_UNREACHABLE = 22,
    PX_REPLY_TTL_EXPIRED = 24,
    PX_REPLY_UNASSIGNED = 25,
    PX_REQUEST_FAILED = 26,
    PX_RESOLVE_HOST = 27,
    PX_USER_REJECTED = 33
};

static const char *const sentences[HF_T_COUNT] = {
    [HF_T_INVALID_REQUEST] = "the request is not valid",
    [HF_T_BLOCKED_ADDRESS] = "the address is not public and deny_private is on",
    [HF_T_LOCAL_PORT_EXHAUSTED] = "no local port is free for another connection",
    [HF_T_TOO_MANY_OPEN_FILES] = "no file descriptor is free; raise the nofile limit",
    [HF_T_OUT_OF_MEMORY] = "memory is exhausted",
    [HF_T_ENGINE_STALLED] = "libcurl did not return; the loop was given up",
    [HF_T_CANCELLED] = "cancelled by the caller",
    [HF_T_SHUTDOWN] = "the engine was closed before the fetch ended",
    [HF_T_DEADLINE] = "the deadline of the whole job has passed",
    [HF_T_ROBOTS_DENIED] = "robots.txt does not allow it",
    [HF_T_HOST_UNAVAILABLE] = "the host failed too often; its breaker is open",
    [HF_T_NO_PROXY_AVAILABLE] = "no proxy became available in time",
    [HF_T_INTERNAL] = "libcurl failed in an unexpected way",
    [HF_T_DNS_ERROR] = "the name does not resolve",
    [HF_T_DNS_TIMEOUT] = "the name server did not answer in time",
    [HF_T_CONNECT_REFUSED] = "the connection was refused",
    [HF_T_CONNECT_ERROR] = "the connection could not be made",
    [HF_T_CONNECT_TIMEOUT] = "the connection was not made in time",
    [HF_T_PROXY_REFUSED] = "the proxy refused the tunnel",
    [HF_T_PROXY_AUTH] = "the proxy did not accept the credentials",
    [HF_T_PROXY_PROTOCOL] = "the proxy did not answer as a proxy does",
    [HF_T_PROXY_TIMEOUT] = "the proxy did not open the tunnel in time",
    [HF_T_TLS_ERROR] = "the TLS handshake failed",
    [HF_T_TLS_TIMEOUT] = "the TLS handshake did not end in time",
    [HF_T_CERTIFICATE_ERROR] = "the certificate could not be verified",
    [HF_T_FIRST_BYTE_TIMEOUT] = "no byte of the response came in time",
    [HF_T_IDLE_TIMEOUT] = "the response stalled",
    [HF_T_TIMEOUT] = "the attempt took too long",
    [HF_T_HARD_TIMEOUT] = "the attempt passed its hard limit",
    [HF_T_SEND_ERROR] = "the request could not be sent",
    [HF_T_CONNECTION_RESET] = "the connection was reset before a response",
    [HF_T_EMPTY_REPLY] = "the connection was closed without a response",
    [HF_T_BAD_RESPONSE] = "the answer is not a valid HTTP response",
    [HF_T_HEADERS_TOO_LARGE] = "the response head is larger than the limit",
    [HF_T_INCOMPLETE] = "the response was cut off",
    [HF_T_BAD_ENCODING] = "the body does not fit its Content-Encoding",
    [HF_T_REDIRECT_LOOP] = "the redirects lead back to themselves",
    [HF_T_TOO_MANY_REDIRECTS] = "there are more redirects than the limit",
    [HF_T_BAD_REDIRECT] = "the Location can't be followed",
    [HF_T_HTTP2_ERROR] = "the HTTP/2 session failed",
};

static const char *const truncated_names[] = {NULL,         "size",    "time",
                                              "disconnect", "framing", "decode"};

const char *hf_truncated_name(int truncated) {
    int n = (int)(sizeof truncated_names / sizeof truncated_names[0]);
    return truncated > 0 && truncated < n ? truncated_names[truncated] : NULL;
}

void hf_outcome_ok(hf_outcome *out) {
    memset(out, 0, sizeof *out);
    out->overrun = -1;
    out->origin = HF_O_SITE;
}

void hf_outcome_set(hf_outcome *out, int type, int phase, int origin, const char *fmt,
                    ...) {
    hf_outcome_ok(out);
    out->type = type;
    out->phase = phase;
    out->origin = origin;
    if (fmt == NULL) {
        snprintf(out->message, sizeof out->message, "%s", sentences[type]);
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->message, sizeof out->message, fmt, ap);
    va_end(ap);
}

/* Who bears the stage that failed: up to the tunnel the proxy, behind it the site. A
 * proxy without a tunnel answers for the site as long as it has not said a byte. */
static int origin_of(const hf_ending *e) {
    if (!e->proxied) {
        return HF_O_SITE;
    }
    if (e->phase <= HF_P_PROXY) {
        return HF_O_PROXY;
    }
    return e->tunnel || e->got_bytes ? HF_O_SITE : HF_O_PROXY;
}

static int timeout_type(const hf_ending *e) {
    switch (e->due) {
    case HF_DUE_FIRST_BYTE:
        return HF_T_FIRST_BYTE_TIMEOUT;
    case HF_DUE_IDLE:
        return HF_T_IDLE_TIMEOUT;
    case HF_DUE_SOFT:
        return HF_T_TIMEOUT;
    case HF_DUE_HARD:
        return HF_T_HARD_TIMEOUT;
    case HF_DUE_JOB:
        return HF_T_DEADLINE;
    case HF_DUE_CONNECT:
        break;
    default:
        if (e->phase > HF_P_TLS) {
            return HF_T_TIMEOUT;
        }
        break;
    }
    switch (e->phase) {
    case HF_P_QUEUE:
    case HF_P_DNS:
        return HF_T_DNS_TIMEOUT;
    case HF_P_PROXY:
        return HF_T_PROXY_TIMEOUT;
    case HF_P_TLS:
        return HF_T_TLS_TIMEOUT;
    default:
        return HF_T_CONNECT_TIMEOUT;
    }
}

static int socks_type(const hf_ending *e, int *origin) {
    *origin = HF_O_PROXY;
    switch (e->proxy_error) {
    case PX_NO_AUTH:
    case PX_RECV_AUTH:
    case PX_USER_REJECTED:
        return HF_T_PROXY_AUTH;
    case PX_RESOLVE_HOST:
        *origin = HF_O_SITE;
        return HF_T_DNS_ERROR;
    case PX_REPLY_REFUSED:
    case PX_REPLY_HOST_UNREACHABLE:
    case PX_REPLY_NETWORK_UNREACHABLE:
    case PX_REPLY_TTL_EXPIRED:
        /* The proxy did its work: it says what the site did. */
        *origin = HF_O_SITE;
        return HF_T_PROXY_REFUSED;
    case PX_IDENTD: /* replies 92 and 93 of SOCKS 4 */
    case PX_IDENTD_DIFFER:
        return HF_T_PROXY_REFUSED;
    default:
        if (e->proxy_error >= PX_LONG_HOSTNAME && e->proxy_error <= PX_LONG_USER) {
            *origin = HF_O_LOCAL;
            return HF_T_INVALID_REQUEST;
        }
        if (e->proxy_error >= PX_REPLY_ADDRESS_TYPE &&
            e->proxy_error <= PX_REQUEST_FAILED) {
            return HF_T_PROXY_REFUSED;
        }
        return HF_T_PROXY_PROTOCOL;
    }
}

static int connect_type(const hf_ending *e, int *origin) {
    switch (e->os_errno) {
    case EMFILE:
    case ENFILE:
        *origin = HF_O_LOCAL;
        return HF_T_TOO_MANY_OPEN_FILES;
    case EADDRNOTAVAIL:
        *origin = HF_O_LOCAL;
        return HF_T_LOCAL_PORT_EXHAUSTED;
    case ECONNREFUSED:
        return HF_T_CONNECT_REFUSED;
    default:
        return HF_T_CONNECT_ERROR;
    }
}

/* Where libcurl decodes, it has the second code for some encodings. Refusals of our own
 * callbacks never come here. */
static bool undecodable(const hf_ending *e) {
    return e->body_started && (e->curl_code == CURLE_BAD_CONTENT_ENCODING ||
                               e->curl_code == CURLE_WRITE_ERROR);
}

/* The exchange itself: the request went out, or should have. */
static int answer_type(const hf_ending *e) {
    if (e->body_started) {
        return undecodable(e) ? HF_T_BAD_ENCODING : HF_T_INCOMPLETE;
    }
    bool too_large = e->curl_code == CURLE_TOO_LARGE ||
                     (e->curl_code == CURLE_RECV_ERROR && e->head_full);
    if (e->http2 && !too_large && e->os_errno == 0) {
        return HF_T_HTTP2_ERROR;
    }
    switch (e->curl_code) {
    case CURLE_GOT_NOTHING:
        return e->got_bytes ? HF_T_BAD_RESPONSE : HF_T_EMPTY_REPLY;
    case CURLE_SEND_ERROR:
        return HF_T_SEND_ERROR;
    case CURLE_TOO_LARGE:
        return HF_T_HEADERS_TOO_LARGE;
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return HF_T_HTTP2_ERROR;
    case CURLE_HTTP3: /* of a stream that ended before a response */
        return e->got_bytes ? HF_T_BAD_RESPONSE : HF_T_CONNECTION_RESET;
    case CURLE_RECV_ERROR:
        if (e->os_errno == 0 && e->head_full) {
            return HF_T_HEADERS_TOO_LARGE;
        }
        return e->os_errno == ECONNRESET || !e->got_bytes ? HF_T_CONNECTION_RESET
                                                          : HF_T_BAD_RESPONSE;
    default:
        return HF_T_BAD_RESPONSE;
    }
}

static int tls_type(const hf_ending *e, int *origin) {
    if (e->untrusted) {
        return HF_T_CERTIFICATE_ERROR;
    }
    if (e->tunnel && e->tls_garbage) {
        *origin = HF_O_PROXY;
    }
    return HF_T_TLS_ERROR;
}

static int type_by_phase(const hf_ending *e, int *origin) {
    switch (e->phase) {
    case HF_P_QUEUE:
    case HF_P_DNS:
        return HF_T_DNS_ERROR;
    case HF_P_CONNECT:
        return connect_type(e, origin);
    case HF_P_PROXY:
        if (e->untrusted) {
            return HF_T_CERTIFICATE_ERROR;
        }
        return HF_T_PROXY_PROTOCOL;
    case HF_P_TLS:
        return tls_type(e, origin);
    default:
        return answer_type(e);
    }
}

static int type_of(const hf_ending *e, int *origin) {
    bool late = e->due != HF_DUE_NONE || e->curl_code == CURLE_OPERATION_TIMEDOUT;
    /* A proxy that has said no has done so, even if the page about it never ends. */
    if (late && (e->due == HF_DUE_JOB || e->connectcode < 300)) {
        *origin = e->due == HF_DUE_JOB ? HF_O_LOCAL : *origin;
        return timeout_type(e);
    }
    if (e->connectcode >= 300 || (e->connectcode > 0 && e->connectcode < 200)) {
        *origin = HF_O_PROXY;
        return e->connectcode == 407 ? HF_T_PROXY_AUTH : HF_T_PROXY_REFUSED;
    }
    switch (e->curl_code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
        *origin = HF_O_PROXY;
        return HF_T_DNS_ERROR;
    case CURLE_COULDNT_RESOLVE_HOST:
        *origin = HF_O_SITE;
        return HF_T_DNS_ERROR;
    case CURLE_PROXY:
        return socks_type(e, origin);
    case CURLE_OUT_OF_MEMORY:
        *origin = HF_O_LOCAL;
        return HF_T_OUT_OF_MEMORY;
    case CURLE_URL_MALFORMAT:
        *origin = HF_O_LOCAL;
        return HF_T_INVALID_REQUEST;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_ABORTED_BY_CALLBACK:
        *origin = HF_O_LOCAL;
        return HF_T_INTERNAL;
    default:
        return type_by_phase(e, origin);
    }
}

static bool broken_framing(const hf_ending *e) {
    if (e->http2) {
        /* The code of a frame that breaks the rules, and of an end before any body. */
        return e->curl_code == CURLE_HTTP2 && (e->some_body || e->stood);
    }
    if (e->curl_code == CURLE_WEIRD_SERVER_REPLY || e->curl_code == CURLE_TOO_LARGE) {
        return true; /* of trailers */
    }
    /* libcurl reports a broken chunk as a receive error that no system call had; and so
     * a TLS peer that goes without a close_notify. */
    return e->curl_code == CURLE_RECV_ERROR && e->os_errno == 0 && e->chunked &&
           (!e->tls || e->stood);
}

static int truncated_of(const hf_ending *e, int type) {
    if (!e->body_started) {
        return HF_TRUNC_NONE;
    }
    if (type == HF_T_BAD_ENCODING) {
        return HF_TRUNC_DECODE;
    }
    if (type != HF_T_INCOMPLETE) {
        return e->due != HF_DUE_NONE ? HF_TRUNC_TIME : HF_TRUNC_DISCONNECT;
    }
    return broken_framing(e) ? HF_TRUNC_FRAMING : HF_TRUNC_DISCONNECT;
}

/* What X509_verify_cert found, by its X509_V_ERR_… of openssl/x509_vfy.h. libcurl
 * leaves its own start value, 1, where the chain was good and only the name did not
 * fit. */
static const char *certificate_flaw(int verify) {
    switch (verify) {
    case 1:
    case 62: /* HOSTNAME_MISMATCH */
    case 64: /* IP_ADDRESS_MISMATCH */
        return "is for another host";
    case 9:
        return "is not valid yet";
    case 10:
        return "has expired";
    case 18: /* DEPTH_ZERO_SELF_SIGNED_CERT */
    case 19: /* SELF_SIGNED_CERT_IN_CHAIN */
        return "is self-signed, or its root is not trusted";
    case 2:  /* UNABLE_TO_GET_ISSUER_CERT */
    case 20: /* the same, LOCALLY */
    case 21: /* UNABLE_TO_VERIFY_LEAF_SIGNATURE */
        return "is not signed by a trusted authority, or the site does not send the "
               "certificates in between";
    case 23:
        return "was revoked";
    default:
        return "could not be verified";
    }
}

void hf_outcome_classify(const hf_ending *e, hf_outcome *out) {
    int origin = origin_of(e);
    int type = type_of(e, &origin);
    int phase = type == HF_T_BAD_ENCODING ? HF_P_DECODE : e->phase;
    hf_outcome_set(out, type, phase, origin, NULL);
    out->curl_code = e->curl_code;
    out->os_errno = e->os_errno;
    out->truncated = truncated_of(e, type);
    if (out->truncated == HF_TRUNC_FRAMING) {
        snprintf(out->message, sizeof out->message,
                 "the framing of the response is broken");
    }
    if (type == HF_T_PROXY_REFUSED && e->connectcode > 0) {
        snprintf(out->message, sizeof out->message,
                 "the proxy answered CONNECT with status %d", e->connectcode);
    }
    if (type == HF_T_CERTIFICATE_ERROR) {
        snprintf(out->message, sizeof out->message, "the %scertificate %s",
                 origin == HF_O_PROXY ? "proxy's " : "", certificate_flaw(e->verify));
    }
}

bool hf_outcome_retryable(const hf_outcome *o) {
    switch (o->type) {
    case HF_T_NONE:
    case HF_T_INVALID_REQUEST:
    case HF_T_BLOCKED_ADDRESS:
    case HF_T_CANCELLED:
    case HF_T_DEADLINE:
    case HF_T_ROBOTS_DENIED:
    case HF_T_HEADERS_TOO_LARGE:
    case HF_T_REDIRECT_LOOP:
    case HF_T_TOO_MANY_REDIRECTS:
    case HF_T_BAD_REDIRECT:
        return false;
    case HF_T_CERTIFICATE_ERROR:
        return o->origin == HF_O_PROXY;
    default:
        return true;
    }
}
