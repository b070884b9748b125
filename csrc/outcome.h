/* How an attempt ended: the closed lists of err.h, filled from facts.
 *
 * classify() knows libcurl's codes, the phase that was reached, errno and the proxy's
 * answer; it never reads a message. Pure: no I/O, no allocation.
 */
#ifndef HF_OUTCOME_H
#define HF_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

/* Why a body is not whole; the order is that of the names in hf_truncated_name. */
enum {
    HF_TRUNC_NONE,
    HF_TRUNC_SIZE,
    HF_TRUNC_TIME,
    HF_TRUNC_DISCONNECT,
    HF_TRUNC_FRAMING,
    HF_TRUNC_DECODE
};

/* Time is up by one of these; HF_DUE_NONE: it was not a deadline. */
enum {
    HF_DUE_NONE,
    HF_DUE_CONNECT,
    HF_DUE_FIRST_BYTE,
    HF_DUE_IDLE,
    HF_DUE_SOFT,
    HF_DUE_HARD,
    HF_DUE_JOB,
    HF_DUE_PASS /* no error: enough was waited for a redirect's body */
};

typedef struct hf_outcome {
    int32_t type;      /* HF_T_…, HF_T_NONE for a response */
    int32_t phase;     /* HF_P_… */
    int32_t origin;    /* HF_O_… */
    int32_t curl_code; /* CURLcode, 0 when none took part */
    int32_t os_errno;
    int32_t truncated; /* HF_TRUNC_… */
    int64_t overrun;   /* us past the limit that ended it, -1 = no limit did */
    char message[224]; /* one sentence for people; no credentials */
} hf_outcome;

/* What is known when an attempt ends without a usable response. */
typedef struct hf_ending {
    int32_t curl_code;   /* CURLcode */
    int32_t os_errno;    /* of the connection attempt */
    int32_t phase;       /* HF_P_…, the furthest that was reached */
    int32_t due;         /* HF_DUE_…, when a deadline ended it */
    int32_t connectcode; /* HTTP status of the CONNECT answer, 0 = none */
    int32_t proxy_error; /* CURLINFO_PROXY_ERROR: CURLPX_…, 0 = none */
    int32_t status;      /* of the final response, 0 = none */
    int32_t verify;      /* X509_V_ERR_…: what is wrong with the certificate */
    bool proxied;        /* through a proxy */
    bool socks;          /* which is a SOCKS one */
    bool tunnel;         /* a CONNECT or SOCKS tunnel carries the exchange */
    bool untrusted;      /* the certificate was not accepted */
    bool tls;            /* bytes on the connection are TLS records */
    bool tls_garbage;    /* the TLS peer's first bytes were no TLS record */
    bool got_bytes;      /* some byte of a response came */
    bool head_full;      /* the head came close to libcurl's own cap */
    bool chunked;        /* its body comes in chunks */
    bool http2;          /* HTTP/2 carried the exchange, as far as that is known */
    bool stood;          /* its connection was not read to an end, as far as is known */
    bool body_started;   /* the final head is complete */
    bool some_body;      /* and some of the body came */
    bool reused;         /* the connection had served before */
} hf_ending;

/* Fills type, phase, origin, truncated, codes and a message. */
void hf_outcome_classify(const hf_ending *e, hf_outcome *out);

/* A response, or one of our own verdicts with its sentence. */
void hf_outcome_ok(hf_outcome *out);
void hf_outcome_set(hf_outcome *out, int type, int phase, int origin, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));

/* Whether another attempt, on another exit if need be, could help. */
bool hf_outcome_retryable(const hf_outcome *o);

/* "size", "time", …; NULL for HF_TRUNC_NONE. */
const char *hf_truncated_name(int truncated);

#endif
