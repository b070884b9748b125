/* Codes, names and error text that every module shares.
 *
 * Three closed lists stand here: our return codes, the error types of a record and
 * its phases and origins. Their names are the ones users see.
 */
#ifndef HF_ERR_H
#define HF_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* Return codes. EFULL, EAGAIN and EEND are answers, not errors. */
enum {
    HF_OK = 0,
    HF_EFULL = -1,   /* no room now, or past a hard maximum */
    HF_EAGAIN = -2,  /* nothing yet: call again */
    HF_EEND = -3,    /* nothing more will come */
    HF_ENOMEM = -4,  /* allocation failed */
    HF_EINVAL = -5,  /* the caller's argument, named in the error text */
    HF_ESYS = -6,    /* a system call failed, named in the error text */
    HF_ELIB = -7,    /* libcurl is missing, unfit or failed */
    HF_EFORK = -8,   /* used in a child of the process that made it */
    HF_ECLOSED = -9, /* used after close */
    HF_EINTR = -10,  /* a signal arrived: let the caller's handlers run */
    HF_EPIPE = -11,  /* the sink's reader went away */
    HF_EIO = -12,    /* the sink failed; errno is in the error text */
    HF_EBAD = -13    /* bytes that the format does not allow */
};

/* Error types of a record: group, then name as in the record. */
#define HF_TYPE_LIST(X)                             \
    X(NONE, "")                                     \
    X(INVALID_REQUEST, "invalid_request")           \
    X(BLOCKED_ADDRESS, "blocked_address")           \
    X(LOCAL_PORT_EXHAUSTED, "local_port_exhausted") \
    X(TOO_MANY_OPEN_FILES, "too_many_open_files")   \
    X(OUT_OF_MEMORY, "out_of_memory")               \
    X(ENGINE_STALLED, "engine_stalled")             \
    X(CANCELLED, "cancelled")                       \
    X(SHUTDOWN, "shutdown")                         \
    X(DEADLINE, "deadline")                         \
    X(ROBOTS_DENIED, "robots_denied")               \
    X(HOST_UNAVAILABLE, "host_unavailable")         \
    X(NO_PROXY_AVAILABLE, "no_proxy_available")     \
    X(INTERNAL, "internal")                         \
    X(DNS_ERROR, "dns_error")                       \
    X(DNS_TIMEOUT, "dns_timeout")                   \
    X(CONNECT_REFUSED, "connect_refused")           \
    X(CONNECT_ERROR, "connect_error")               \
    X(CONNECT_TIMEOUT, "connect_timeout")           \
    X(PROXY_REFUSED, "proxy_refused")               \
    X(PROXY_AUTH, "proxy_auth")                     \
    X(PROXY_PROTOCOL, "proxy_protocol")             \
    X(PROXY_TIMEOUT, "proxy_timeout")               \
    X(TLS_ERROR, "tls_error")                       \
    X(TLS_TIMEOUT, "tls_timeout")                   \
    X(CERTIFICATE_ERROR, "certificate_error")       \
    X(FIRST_BYTE_TIMEOUT, "first_byte_timeout")     \
    X(IDLE_TIMEOUT, "idle_timeout")                 \
    X(TIMEOUT, "timeout")                           \
    X(HARD_TIMEOUT, "hard_timeout")                 \
    X(SEND_ERROR, "send_error")                     \
    X(CONNECTION_RESET, "connection_reset")         \
    X(EMPTY_REPLY, "empty_reply")                   \
    X(BAD_RESPONSE, "bad_response")                 \
    X(HEADERS_TOO_LARGE, "headers_too_large")       \
    X(INCOMPLETE, "incomplete")                     \
    X(BAD_ENCODING, "bad_encoding")                 \
    X(REDIRECT_LOOP, "redirect_loop")               \
    X(TOO_MANY_REDIRECTS, "too_many_redirects")     \
    X(BAD_REDIRECT, "bad_redirect")                 \
    X(HTTP2_ERROR, "http2_error")

#define HF_TYPE_ENUM(id, name) HF_T_##id,
enum { HF_TYPE_LIST(HF_TYPE_ENUM) HF_T_COUNT };
#undef HF_TYPE_ENUM

/* Phases, in the order in which a fetch passes them. */
enum {
    HF_P_QUEUE,
    HF_P_DNS,
    HF_P_CONNECT,
    HF_P_PROXY,
    HF_P_TLS,
    HF_P_SEND,
    HF_P_FIRST_BYTE,
    HF_P_HEADERS,
    HF_P_BODY,
    HF_P_DECODE,
    HF_P_COUNT
};

enum { HF_O_SITE, HF_O_PROXY, HF_O_LOCAL, HF_O_COUNT };

/* The name as users see it; "internal" for a number outside the list. */
const char *hf_type_name(int type);
const char *hf_phase_name(int phase);
const char *hf_origin_name(int origin);
const char *hf_code_name(int code);

/* Where error text goes: the caller's slot. A NULL slot takes nothing. */
typedef struct hf_errbuf {
    char *text; /* caller's */
    size_t cap; /* bytes, terminator included */
} hf_errbuf;

/* Writes a formatted text, cut to the slot. Returns code, so that a caller can write
 * `return hf_fail(err, HF_EINVAL, ...)`.
 */
int hf_fail(hf_errbuf err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with ": <system text of errno>" behind it. Returns HF_ESYS. */
int hf_fail_sys(hf_errbuf err, const char *operation);

#endif
