/* TLS sessions of an identity, between libcurl's cache and the store (tlscache.h).
 *
 * libcurl keeps sessions of 25 peers, and of those that it never resumed it lets go of
 * the one met last. So its cache is only where sessions pass: those that came are moved
 * to the store in batches, and a peer's are put back just before its handshake. Nothing
 * here does anything without a store. The identity's loop only.
 */
#ifndef HF_SESSIONS_H
#define HF_SESSIONS_H

#include "tlscache.h"
#include "url.h"

struct hf_identity;

typedef struct hf_sessions {
    hf_tls_cache *store; /* borrowed from the settings; NULL = none, or unfit libcurl */
    CURL *keeper;        /* owned: libcurl refuses these calls on a handle at work */
    uint8_t scope[HF_TLS_SCOPE];
    int32_t noted; /* since the last batch */
} hf_sessions;

/* Sets up what an identity with a key and a share needs. Returns 0 or HF_ENOMEM. */
int hf_sessions_init(struct hf_identity *id);

/* Moves what is left to the store and frees. Before the share goes. */
void hf_sessions_end(struct hf_identity *id);

/* Gives libcurl what is known of a host that a TLS handshake is about to begin with.
 * From callbacks too, as the next. */
void hf_sessions_offer(struct hf_identity *id, const hf_url *url);

/* Notes that sessions may have come over a new TLS connection: it is secure; bytes came
 * that brought nothing else; the response begins. Now and then moves those that did. */
void hf_sessions_note(struct hf_identity *id);

#endif
