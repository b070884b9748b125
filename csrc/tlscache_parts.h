/* The store of TLS sessions among its own files. */
#ifndef HF_TLSCACHE_PARTS_H
#define HF_TLSCACHE_PARTS_H

#include <pthread.h>

#include "atomics.h"
#include "tlscache.h"

#define HF_TLS_SALT 16

struct hf_tls_cache {
    pthread_mutex_t lock;
    hf_atomic_u32 holds;
    uint8_t salt[HF_TLS_SALT];
    size_t most;           /* bytes */
    size_t bytes;          /* of all peers and tickets */
    hf_tls_peer **buckets; /* owned; a power of two */
    uint32_t n_buckets;
    uint32_t n_peers;
    hf_tls_peer *newest;
    hf_tls_peer *oldest;
};

/* Drops everything. */
void hf_tls_cache_clear(hf_tls_cache *c);

#endif
