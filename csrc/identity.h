/* An identity: what may share connections, TLS sessions and cookies.
 *
 * Proxy with credentials, session id, impersonation profile and HTTP version make the
 * key. Each identity has multis of its own, so nothing can cross from one to another,
 * and keeps the easy handles it has used, with every option set that all its requests
 * share. Owned by one loop.
 */
#ifndef HF_IDENTITY_H
#define HF_IDENTITY_H

#include "lane.h"
#include "proxyurl.h"
#include "request.h"
#include "sessions.h"

struct hf_loop;
struct hf_transfer;

typedef struct hf_identity {
    struct hf_identity *next; /* in use order, latest first */
    struct hf_identity *prev;
    struct hf_loop *loop;
    CURLSH *share;              /* names and TLS sessions; cookies of a session */
    hf_sessions sessions;       /* on their way to and from the store */
    struct hf_transfer *idle;   /* transfers kept for reuse */
    struct hf_transfer *all;    /* every transfer; they end with the identity at last */
    struct curl_slist *headers; /* the engine's default headers */
    struct curl_slist *resolve;
    hf_proxy proxy;  /* url NULL = direct */
    hf_lane **lanes; /* owned array; one at least */
    int32_t n_lanes;
    int32_t cap_lanes;
    int32_t filling;   /* lane that new transfers go to */
    int32_t busy;      /* transfers in the multis */
    bool cookies;      /* it keeps cookies: those of a session */
    bool named;        /* its share has the addresses of `resolve` */
    char *impersonate; /* owned; "" = none */
    long http_version; /* CURL_HTTP_VERSION_… */
    uint32_t hash;
    size_t key_len;
    uint8_t *key; /* owned */
} hf_identity;

enum { HF_IDENTITIES = 256 }; /* kept per loop; each holds a descriptor */

/* The identity of a request, made at first use.
 * Returns 0; HF_EINVAL with a sentence in err when proxy or profile are unfit,
 * HF_ENOMEM, HF_ELIB.
 */
int hf_identity_get(struct hf_loop *loop, const hf_request *r, hf_identity **out,
                    hf_errbuf err);

/* Sets every option that all requests of the identity share. Returns 0, HF_EINVAL with
 * err set when the profile is unknown, HF_ELIB. */
int hf_identity_dress(const hf_identity *id, struct hf_transfer *t, hf_errbuf err);

/* Closes the idle connections of all identities of a loop. Returns false when the loop
 * has been given up meanwhile. */
bool hf_identity_shed(struct hf_loop *loop);

/* Frees all identities of a loop, running transfers too; requests are not touched. */
void hf_identity_free_all(struct hf_loop *loop);

#endif
