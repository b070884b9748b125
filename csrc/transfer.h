/* One attempt on one easy handle: options, callbacks, and what came of it.
 *
 * A transfer belongs to its identity for life and serves one request at a time. Its
 * easy handle is set up once; per request only URL, method, headers and body change.
 * It lives as long as its identity, or until an answer has made its handle large.
 * Callbacks stand in life order: name, open socket, TLS begins, request ready, header,
 * body, close.
 */
#ifndef HF_TRANSFER_H
#define HF_TRANSFER_H

#include "decode.h"
#include "identity.h"
#include "response.h"

/* Why a callback of ours made libcurl stop. */
enum {
    HF_STOP_NONE,
    HF_STOP_SIZE, /* a body cap was reached: not an error */
    HF_STOP_HEAD, /* the head is too large */
    HF_STOP_MEMORY,
    HF_STOP_HEADLESS, /* a body came although the head is none, or a 101 */
    HF_STOP_ENCODING, /* the body does not fit its Content-Encoding */
    HF_STOP_BLOCKED,  /* the address is not public */
    HF_STOP_REPEAT,   /* libcurl would send what may have been acted on again */
    HF_STOP_DISCARD,  /* enough of a redirect's body was passed over */
    HF_STOP_LOST      /* the shard was taken away */
};

typedef struct hf_transfer {
    struct hf_transfer *next; /* in the identity's idle list */
    struct hf_transfer *all;  /* next in the identity's list of all */
    struct hf_transfer **at;  /* what leads to it in that list; NULL = not in it */
    hf_identity *identity;
    hf_lane *lane; /* where it runs, or ran last */
    CURL *easy;
    hf_request *req;            /* NULL while idle */
    hf_response *resp;          /* the request's */
    hf_decoder *decoder;        /* borrowed from the loop while a body is decoded */
    const hf_url *url;          /* of the running hop */
    struct curl_slist *headers; /* this hop's own list, or NULL */
    char *why;                  /* libcurl's words; owned, NULL without a proxy */
    int64_t hop_start;          /* us */
    int64_t sent_at;            /* us, 0 = the request is not out yet */
    int64_t last_byte;          /* us of the last byte of the response */
    int64_t set_hard;           /* us, what libcurl was told */
    int64_t discarded;          /* bytes of a redirect's body passed over */
    int64_t pass_at;            /* us when a redirect is followed without its end */
    int64_t unasked;            /* bytes that came before the request was sent */
    int64_t lines;              /* bytes of header lines since the attempt began */
    int64_t counted;            /* bytes that had come when it was last looked */
    int64_t heard_at;           /* us of the byte by which it is heard */
    int32_t stop;               /* HF_STOP_… */
    int32_t stop_errno;         /* errno of a socket that could not be opened */
    int fd; /* the socket it has had last, -1 = none; next_fd of hf_sock has others */
    uint32_t added_at; /* its lane's actions when it was added */
    bool in_multi;
    bool idles;       /* it left its connection idle, as far as is known */
    bool shaped;      /* method or body options differ from a plain GET */
    bool is_fresh;    /* FRESH_CONNECT is set */
    bool has_cookies; /* COOKIE is set: the caller's beside a session's */
    bool names_age; /* names that are too old are dropped with it: hf_lane_age_names */
    bool opened;    /* a connection was made for this hop */
    bool asked;     /* libcurl has begun to ask for a name or its HTTPS record */
    bool refused;   /* and was told not to */
    bool resolved;  /* an address was tried */
    bool connected; /* TCP was through when a socket was closed */
    bool stood;     /* libcurl had not come to that connection's end */
    bool heard;     /* bytes had come after the request, if not a whole line */
    bool sees_tls;  /* libcurl tells when a handshake begins */
    bool unsent;    /* the connection was of no use, so the request did not go out */
    bool tls_began; /* the TLS handshake with the site has begun */
    bool tls_bytes; /* its peer has said something, seen before libcurl had it */
    bool tls_garbage; /* which was no TLS */
    bool got_bytes;   /* of the response */
    bool discard;     /* the body is a redirect's */
    bool body_begun;  /* the first body byte was seen */
} hf_transfer;

/* Makes a transfer with its easy handle. Returns 0, HF_ENOMEM, HF_EINVAL, HF_ELIB. */
int hf_transfer_new(hf_identity *id, hf_transfer **out, hf_errbuf err);

/* Takes it off its identity's list and frees it; it must not be in a multi. */
void hf_transfer_free(hf_transfer *t);

/* Gives it a request and sets the options of its first hop, or of the next one where a
 * redirect has led to another host.
 * Returns 0, or HF_ENOMEM / HF_ELIB. */
int hf_transfer_start(hf_transfer *t, hf_request *r, int64_t now);

/* Sets the options of the next hop after hf_transfer_end said so: to the same host. */
int hf_transfer_hop(hf_transfer *t, int64_t now);

/* What libcurl's result means. Fills the request's outcome and the response.
 * Returns true when a redirect is to be followed. */
bool hf_transfer_end(hf_transfer *t, int code, int64_t now);

/* Whether a result is the work of on_resolve (connect.c) alone: it took the query for
 * the address for the other one. Then the transfer is to be added again as it is. */
bool hf_transfer_misled(hf_transfer *t, int code);

/* The end by a deadline (HF_DUE_…) that was due at `at`. Before the removal from the
 * multi, since it looks at the socket. */
void hf_transfer_expire(hf_transfer *t, int due, int64_t at, int64_t now);

/* The same for a cancellation or a stop: outcome `type`. */
void hf_transfer_abort(hf_transfer *t, int type, int64_t now);

/* The earliest limit that applies now, and which. */
int64_t hf_transfer_next_due(const hf_transfer *t, int *due);

/* The same once a limit is up: where it is one of silence, it listens first. */
int64_t hf_transfer_up(hf_transfer *t, int *due);

/* Takes the request away and makes the transfer ready for the next one, or frees it
 * when its handle keeps too much: t is not to be used any more. */
void hf_transfer_rest(hf_transfer *t);

/* Sets the callbacks; identity.c calls it once per handle. */
void hf_transfer_set_callbacks(hf_transfer *t);

/* Looks at a socket of the transfer's, for facts to classify its end by. */
void hf_transfer_note_state(hf_transfer *t, int fd);

/* Whether the response is a redirect to be followed, so that its body is of no use. */
bool hf_transfer_passes_over(const hf_transfer *t);

/* Looks at the first bytes of a TLS handshake inside a tunnel, before libcurl does. */
void hf_transfer_peek_tls(hf_transfer *t);

#endif
