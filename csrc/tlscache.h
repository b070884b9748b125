/* TLS sessions that outlive connections and runs: a bounded store, and its bytes.
 *
 * One for any number of engines and loops, under a mutex. A session belongs to a scope
 * (who may resume it, see hf_tls_cache_scope) and to a peer, whose key is libcurl's:
 * "host:port" and what else must be the same. The newest two of a peer are kept, since
 * a TLS 1.3 ticket serves once; past the maximum of bytes the peers that were met
 * longest ago give way. What is taken is gone. No clock of its own: now is Unix time in
 * seconds. Not here: files (Python's), and what is in a session.
 */
#ifndef HF_TLSCACHE_H
#define HF_TLSCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "hf.h"

enum {
    HF_TLS_SCOPE = 16, /* bytes of a scope */
    HF_TLS_NEWEST = 2  /* sessions kept of a peer */
};

/* libcurl packs no larger ones, and its keys hold a host and some paths. */
#define HF_TLS_TICKET_MOST 16384
#define HF_TLS_KEY_MOST 16384

/* Bytes that a store holds by default: some 10,000 peers with real chains. */
#define HF_TLS_CACHE_BYTES ((size_t)64 << 20)

typedef struct hf_tls_ticket {
    int64_t valid_until; /* Unix time */
    uint32_t n;
    uint8_t data[];
} hf_tls_ticket;

/* What is known of one peer. */
typedef struct hf_tls_peer {
    struct hf_tls_peer *same; /* in its bucket; in what was taken, the next */
    struct hf_tls_peer *newer;
    struct hf_tls_peer *older;
    hf_tls_ticket *tickets[HF_TLS_NEWEST]; /* owned; newest first, NULL behind them */
    uint8_t scope[HF_TLS_SCOPE];
    uint32_t hash;     /* of scope and name */
    uint32_t name_len; /* of the key's "host:port" */
    uint32_t key_len;
    char key[]; /* terminated */
} hf_tls_peer;

/* A store of most bytes at most, or NULL without memory. The caller has one hold. */
hf_tls_cache *hf_tls_cache_make(size_t most);

/* Takes another hold; NULL is allowed. hf_tls_cache_free gives one up. Any thread. */
hf_tls_cache *hf_tls_cache_hold(hf_tls_cache *c);

/* The scope of an identity, which can't be found out again from it, as the identity may
 * have passwords: a SHA-256 with the store's salt. Any thread. */
void hf_tls_cache_scope(const hf_tls_cache *c, const uint8_t *identity, size_t n,
                        uint8_t scope[HF_TLS_SCOPE]);

/* Keeps a copy of a session, as the newest of its peer. One that is there already, is
 * over, or is larger than any real one is passed over, as is any without memory.
 * Any thread. */
void hf_tls_cache_put(hf_tls_cache *c, const uint8_t scope[HF_TLS_SCOPE],
                      const char *key, const uint8_t *data, size_t n,
                      int64_t valid_until, int64_t now);

/* Takes the newest session out of each peer that is at name ("host:port", n bytes),
 * linked by `same`; NULL when there is none. Owns: the caller, who ends them with
 * hf_tls_peers_free. Tickets may have ended. Any thread. */
hf_tls_peer *hf_tls_cache_take(hf_tls_cache *c, const uint8_t scope[HF_TLS_SCOPE],
                               const char *name, size_t n);
void hf_tls_peers_free(hf_tls_peer *p);

/* Fills an empty store from what hf_tls_cache_save wrote.
 * Returns 0; HF_EBAD when the bytes were never a store's; HF_EAGAIN when they were, but
 * are cut, damaged or of another version: the store is then empty. */
int hf_tls_cache_load(hf_tls_cache *c, const uint8_t *p, size_t n, int64_t now);

/* Peers and bytes held. Any thread. */
void hf_tls_cache_size(hf_tls_cache *c, size_t *peers, size_t *bytes);

#endif
