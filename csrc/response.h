/* What one attempt brought: head, body, hops, times. Plain data, owned by a transfer.
 *
 * head holds the raw lines of the final header block, status line first, each with its
 * line end. Slices point into head and move with it, so they are offsets.
 */
#ifndef HF_RESPONSE_H
#define HF_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "url.h"

/* A run of bytes inside another buffer. */
typedef struct hf_range {
    uint32_t at;
    uint32_t len;
} hf_range;

typedef struct hf_hop {
    char *url;         /* as requested, without user info; owned */
    int32_t status;    /* 3xx */
    bool get;          /* it was asked for with GET */
    int32_t cookies;   /* Set-Cookie headers of the answers before it */
    uint32_t len;      /* bytes of location */
    uint8_t *location; /* raw, but for a password; owned, in one block with url */
} hf_hop;

/* What a proxy told with its refusal of CONNECT; texts are cut. */
typedef struct hf_refusal {
    char retry_after[64];
    char date[64]; /* of its clock, "" = not told */
} hf_refusal;

typedef struct hf_response {
    struct hf_response *next; /* in the shard's pool while free */
    int32_t status;           /* of the final response, 0 = none came */
    int32_t http_version;     /* 10, 11, 20, 30; 0 = none */
    bool head_done;           /* the final head is complete */
    bool interim;             /* the head that comes in is a 1xx: not the answer */
    bool switches;            /* it is a 101, which nobody asked for */
    bool block_done;          /* a block is complete, maybe an interim one */
    bool has_location;
    bool has_type; /* content_type is set */
    bool chunked;  /* a Transfer-Encoding frames the body */
    bool endless;  /* a Content-Length says more than any body can have */
    bool decoded;  /* a content encoding was taken off */
    bool reused;   /* the connection had served before */
    bool to_get;   /* a redirect has turned the method into GET */
    bool strip;    /* a redirect crossed origins: sensitive headers stay away */
    hf_range location;
    hf_range content_type;
    size_t interims;      /* bytes of the 1xx heads before this one */
    hf_buf head;          /* within its bound the interim ones count, too */
    hf_buf encoding;      /* all Content-Encoding values, joined by ", " */
    hf_buf body;          /* decoded */
    uint64_t wire_size;   /* bytes of body before decoding */
    hf_hop *hops;         /* owned array */
    int32_t cookies;      /* Set-Cookie headers of all answers of the attempt */
    int32_t head_cookies; /* those of this head */
    int32_t n_hops;
    int32_t cap_hops;
    hf_refusal *refusal; /* owned; NULL = none that tells how long to wait */
    hf_url final;        /* where the last hop led; text NULL without hops; owned */
    int32_t remote_port; /* 0 = not connected */
    char remote_ip[64];
    int64_t dns; /* us, -1 = phase not reached; as the next four */
    int64_t connect;
    int64_t tls;
    int64_t first_byte;
    int64_t total;
} hf_response;

void hf_response_init(hf_response *r, int64_t max_head, int64_t max_body);

/* Forgets the content for the next attempt; keeps up to `keep` bytes of memory. */
void hf_response_reset(hf_response *r, size_t keep);
void hf_response_free(hf_response *r);

/* Forgets the head only: a new header block begins. */
void hf_response_new_head(hf_response *r);

/* The same, and what was noted of the connection: another hop begins. */
void hf_response_new_hop(hf_response *r);

/* Takes one raw header line. Returns 0, HF_EFULL past the cap, HF_ENOMEM. */
int hf_response_header(hf_response *r, const uint8_t *line, size_t n);

/* Adds a followed redirect. Returns 0 or HF_ENOMEM. */
int hf_response_hop(hf_response *r, const char *url, bool get, const uint8_t *location,
                    size_t n);

/* One header of the final block. name and value point into head. */
typedef struct hf_field {
    const uint8_t *name;
    const uint8_t *value;
    uint32_t name_len;
    uint32_t value_len;
} hf_field;

/* Whether the status and a Location make it a redirect. */
bool hf_response_redirects(const hf_response *r);

/* Walks the headers: *pos starts at 0. Returns false past the last one. */
bool hf_response_next(const hf_response *r, size_t *pos, hf_field *out);

#endif
