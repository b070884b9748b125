/* One input, from acceptance to its record.
 *
 * A request has one owner at a time: the feeder until it is posted, then its shard. It
 * is one block of memory: the struct, then the bytes that its slices point into. What
 * was given is read-only after hf_request_new; the rest is the shard's.
 */
#ifndef HF_REQUEST_H
#define HF_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "atomics.h"
#include "config.h"
#include "deadline.h"
#include "outcome.h"
#include "pace.h"
#include "shortage.h"
#include "url.h"

typedef struct hf_slice {
    const uint8_t *p; /* NULL = absent */
    uint32_t n;
} hf_slice;

/* Where a request stands; one thread moves it: the owner of its shard. */
enum {
    HF_R_QUEUED,  /* in its host's queue */
    HF_R_RUNNING, /* has a transfer in a multi */
    HF_R_JUDGED,  /* waits for policy's verdict */
    HF_R_BACKOFF, /* waits for its next attempt */
    HF_R_PARKED   /* ended, waits for room in the ring */
};

/* What found an answer bad. */
enum { HF_REJECTED_NOT, HF_REJECTED_BODY, HF_REJECTED_VALIDATE };

/* One attempt that is over. */
typedef struct hf_attempt {
    int32_t status;   /* HTTP status, 0 = none */
    int32_t type;     /* HF_T_… */
    int32_t rejected; /* HF_REJECTED_… */
    int64_t elapsed;  /* us */
    int64_t wait;     /* us of back-off before it */
    char *proxy;      /* without credentials; owned; NULL = direct */
} hf_attempt;

typedef struct hf_request {
    struct hf_request *next;
    struct hf_request *prev;
    struct hf_host *host;         /* while queued or in flight */
    struct hf_transfer *transfer; /* while running */
    struct hf_response *response; /* of the last attempt, until the record is out */
    struct hf_ticket *ticket;     /* for a hop to another shard's host: shard_hop.h */
    struct hf_request *same;      /* next in the shard's table by seq */
    hf_due due;                   /* in the shard's heap */
    hf_due hard;                  /* hard limit of the attempt, for the watchdog */
    int32_t state;                /* HF_R_… */
    hf_atomic_u32 claimed;        /* 1 = somebody reports it; pairs with itself */
    uint64_t seq;
    size_t charge;         /* bytes against the window */
    int64_t accepted;      /* us, monotonic */
    int64_t first_start;   /* us; 0 = never started */
    int64_t attempt_start; /* us; waits between two hops are not counted */
    int64_t hop_start;     /* us; since when its host is asked */
    int64_t hop_left;      /* us; while hopping, since when it waits */
    int64_t spent;         /* us; while hopping, what the attempt took so far */
    int64_t job_due;       /* us, HF_NEVER = off */
    int64_t wait;          /* us of back-off before the running attempt */
    hf_limits limits;
    hf_grant grant;       /* how its host let it start */
    hf_put_off put_off;   /* for want of descriptors or ports */
    hf_url url;           /* text NULL when invalid */
    hf_outcome outcome;   /* of the last attempt, or why it is invalid */
    hf_attempt *attempts; /* &first, or an owned array of more */
    hf_attempt first;     /* most requests need no more than this */
    int32_t n_attempts;
    char denied[32];        /* what denied a retry, or "" */
    char *next_proxy;       /* policy's choice for the next attempt; owned */
    char *proxy_shown;      /* of the last attempt, no credentials; owned */
    int32_t exit;           /* number in the table of exits, -1 = none */
    bool exit_probe;        /* the exit was tried with this one */
    bool exit_taken;        /* while hopping: it is nobody else's */
    bool host_alive;        /* its host answered another meanwhile */
    int32_t pair_failures;  /* in a row of exit and host */
    uint64_t host_requests; /* first attempts to its host, when it ended */
    bool matched;           /* the body holds a pattern that policy asks for */
    bool fresh;
    bool provisional; /* its record is out, and waits for a verdict on its content */
    bool checked;     /* that was given: the next record is the last one */
    bool held;        /* waits for a verdict before its first attempt */
    bool hopping;     /* a redirect has led on, and its host has not been asked yet */
    bool lent;        /* its ticket is back, and granted */
    bool is_ticket;   /* it is the first part of an hf_ticket */
    bool asks;        /* the others of its host wait while it looks the name up */
    bool cancelled;
    bool leaked;    /* libcurl may hold its body: freed with the shard */
    hf_slice input; /* as given */
    hf_slice id;
    hf_slice meta;
    hf_slice method;
    hf_slice body;
    hf_slice proxy;
    hf_slice session;
    hf_slice impersonate;
    hf_slice http_version;
    hf_slice *headers; /* in the same block */
    int32_t n_headers;
} hf_request;

/* Makes a request of a bare line, whose bytes are copied.
 * Returns NULL when memory is out. An invalid URL is a request with its outcome set.
 */
hf_request *hf_request_line(const hf_settings *s, const uint8_t *line, size_t n);

/* Makes a request of one packed frame's items (api.h). Returns NULL with *rc HF_ENOMEM,
 * or HF_EINVAL for broken framing; what is wrong inside an item is the request's
 * outcome.
 */
hf_request *hf_request_unpack(const hf_settings *s, const uint8_t *items, size_t n,
                              int *rc);

/* A line without the blanks around it; empty when it is blank or a comment. */
hf_slice hf_line_trim(const uint8_t *line, size_t n);

/* Whether a trimmed line is JSON or was meant so: no URL begins like it. */
bool hf_line_is_json(hf_slice line);

/* How many bytes of a line of n bytes its request keeps as its input. */
size_t hf_line_kept(size_t n);

/* The input of a packed frame's items, as its record tells it. Points into items.
 * Returns 0 or HF_EINVAL for broken framing. */
int hf_request_input(const uint8_t *items, size_t n, hf_slice *out);

void hf_request_free(hf_request *r);

/* Notes the attempt that ended with r->outcome. Returns 0 or HF_ENOMEM. */
int hf_request_note_attempt(hf_request *r, int status, int64_t elapsed,
                            const char *proxy);

/* True for the one caller that may report the request. Any thread. */
bool hf_request_claim(hf_request *r);

/* What is asked for now: the URL as given, or where the last redirect led to. Valid as
 * long as the request, but until the next hop or attempt only. */
const hf_url *hf_request_url(const hf_request *r);

/* The method in use: the request's, else the engine's, else GET or POST. */
hf_slice hf_request_method(const hf_settings *s, const hf_request *r);

/* Whether a second request does no harm that the first did not (RFC 9110, 9.2.2). */
bool hf_method_idempotent(hf_slice method);

/* Whether the request is invalid and only needs its record. */
static inline bool hf_request_invalid(const hf_request *r) {
    return r->url.text == NULL;
}

#endif
