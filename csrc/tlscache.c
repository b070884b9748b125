#include "tlscache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memo.h"
#include "sha256.h"
#include "tlscache_parts.h"

#define FIRST_BUCKETS 256

/* --- life --------------------------------------------------------------------------
 */

/* getrandom by its number: the C library has a name for it from glibc 2.25 on alone. */
static bool fill_by_chance(void *salt, size_t n) {
    return syscall(SYS_getrandom, salt, n, 0) == (long)n;
}

hf_tls_cache *hf_tls_cache_make(size_t most) {
    hf_tls_cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->n_buckets = FIRST_BUCKETS;
    c->buckets = calloc(c->n_buckets, sizeof(hf_tls_peer *));
    if (c->buckets == NULL || !fill_by_chance(c->salt, HF_TLS_SALT)) {
        free(c->buckets);
        free(c);
        return NULL;
    }
    c->most = most;
    pthread_mutex_init(&c->lock, NULL);
    hf_init(&c->holds, 1);
    return c;
}

hf_tls_cache *hf_tls_cache_hold(hf_tls_cache *c) {
    if (c != NULL) {
        hf_add(&c->holds, 1, HF_RELAXED);
    }
    return c;
}

static size_t cost_of(const hf_tls_peer *p) {
    size_t n = sizeof *p + p->key_len + 1;
    for (int i = 0; i < HF_TLS_NEWEST && p->tickets[i] != NULL; i++) {
        n += sizeof *p->tickets[i] + p->tickets[i]->n;
    }
    return n;
}

static void free_peer(hf_tls_peer *p) {
    for (int i = 0; i < HF_TLS_NEWEST; i++) {
        free(p->tickets[i]);
    }
    free(p);
}

void hf_tls_peers_free(hf_tls_peer *p) {
    while (p != NULL) {
        hf_tls_peer *next = p->same;
        free_peer(p);
        p = next;
    }
}

void hf_tls_cache_clear(hf_tls_cache *c) {
    for (uint32_t i = 0; i < c->n_buckets; i++) {
        hf_tls_peers_free(c->buckets[i]);
        c->buckets[i] = NULL;
    }
    c->newest = c->oldest = NULL;
    c->n_peers = 0;
    c->bytes = 0;
}

void hf_tls_cache_free(hf_tls_cache *c) {
    /* The last one out must see what the others did. */
    if (c == NULL || hf_add(&c->holds, (uint32_t)-1, HF_ACQ_REL) != 1) {
        return;
    }
    hf_tls_cache_clear(c);
    free(c->buckets);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void hf_tls_cache_size(hf_tls_cache *c, size_t *peers, size_t *bytes) {
    pthread_mutex_lock(&c->lock);
    *peers = c->n_peers;
    *bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
}

/* --- peers -------------------------------------------------------------------------
 */

void hf_tls_cache_scope(const hf_tls_cache *c, const uint8_t *identity, size_t n,
                        uint8_t scope[HF_TLS_SCOPE]) {
    uint8_t whole[HF_SHA256_BYTES];
    hf_sha256 s;
    hf_sha256_init(&s);
    hf_sha256_add(&s, c->salt, HF_TLS_SALT);
    hf_sha256_add(&s, identity, n);
    hf_sha256_end(&s, whole);
    memcpy(scope, whole, HF_TLS_SCOPE);
}

static uint32_t hash_of(const uint8_t *scope, const char *name, size_t n) {
    uint64_t h = hf_memo_hash(HF_MEMO_SEED, scope, HF_TLS_SCOPE);
    return (uint32_t)hf_memo_hash(h, name, n);
}

/* The length of "host:port" in front of a key. What libcurl puts behind it, if
 * anything, is ':' and a capital; hosts are in lower case (its Curl_ssl_peer_key_make).
 */
static size_t name_in(const char *key) {
    size_t n = 0;
    while (key[n] != '\0' && (key[n] != ':' || key[n + 1] < 'A' || key[n + 1] > 'Z')) {
        n++;
    }
    return n;
}

static void unlink_age(hf_tls_cache *c, hf_tls_peer *p) {
    *(p->newer != NULL ? &p->newer->older : &c->newest) = p->older;
    *(p->older != NULL ? &p->older->newer : &c->oldest) = p->newer;
    p->newer = p->older = NULL;
}

static void link_newest(hf_tls_cache *c, hf_tls_peer *p) {
    p->newer = NULL;
    p->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = p;
    c->newest = p;
}

static void unlink_peer(hf_tls_cache *c, hf_tls_peer *p) {
    hf_tls_peer **at = &c->buckets[p->hash & (c->n_buckets - 1)];
    while (*at != p) {
        at = &(*at)->same;
    }
    *at = p->same;
    p->same = NULL;
    unlink_age(c, p);
    c->n_peers--;
    c->bytes -= cost_of(p);
}

/* Doubles the table; without memory for it the chains just get longer. */
static void grow(hf_tls_cache *c) {
    uint32_t n = c->n_buckets * 2;
    hf_tls_peer **buckets = calloc(n, sizeof(hf_tls_peer *));
    if (buckets == NULL) {
        return;
    }
    for (hf_tls_peer *p = c->oldest; p != NULL; p = p->newer) {
        p->same = buckets[p->hash & (n - 1)];
        buckets[p->hash & (n - 1)] = p;
    }
    free(c->buckets);
    c->buckets = buckets;
    c->n_buckets = n;
}

static hf_tls_peer *add_peer(hf_tls_cache *c, const uint8_t *scope, const char *key,
                             size_t n, uint32_t hash, size_t name_len) {
    hf_tls_peer *p = calloc(1, sizeof *p + n + 1);
    if (p == NULL) {
        return NULL;
    }
    if (c->n_peers >= c->n_buckets) {
        grow(c);
    }
    memcpy(p->scope, scope, HF_TLS_SCOPE);
    memcpy(p->key, key, n);
    p->key_len = (uint32_t)n;
    p->name_len = (uint32_t)name_len;
    p->hash = hash;
    p->same = c->buckets[hash & (c->n_buckets - 1)];
    c->buckets[hash & (c->n_buckets - 1)] = p;
    c->n_peers++;
    c->bytes += cost_of(p);
    link_newest(c, p);
    return p;
}

/* The peer of a key, made when it is not there, as the newest; NULL without memory. */
static hf_tls_peer *meet(hf_tls_cache *c, const uint8_t *scope, const char *key,
                         size_t n) {
    size_t name_len = name_in(key);
    uint32_t hash = hash_of(scope, key, name_len);
    hf_tls_peer *p = c->buckets[hash & (c->n_buckets - 1)];
    while (p != NULL && (p->hash != hash || p->key_len != n ||
                         memcmp(p->scope, scope, HF_TLS_SCOPE) != 0 ||
                         memcmp(p->key, key, n) != 0)) {
        p = p->same;
    }
    if (p == NULL) {
        return add_peer(c, scope, key, n, hash, name_len);
    }
    unlink_age(c, p);
    link_newest(c, p);
    return p;
}

static bool has(const hf_tls_peer *p, const uint8_t *data, size_t n) {
    for (int i = 0; i < HF_TLS_NEWEST && p->tickets[i] != NULL; i++) {
        if (p->tickets[i]->n == n && memcmp(p->tickets[i]->data, data, n) == 0) {
            return true;
        }
    }
    return false;
}

static void add_ticket(hf_tls_cache *c, hf_tls_peer *p, const uint8_t *data, size_t n,
                       int64_t valid_until) {
    hf_tls_ticket *t = malloc(sizeof *t + n);
    if (t == NULL) {
        return;
    }
    t->valid_until = valid_until;
    t->n = (uint32_t)n;
    memcpy(t->data, data, n);
    c->bytes -= cost_of(p);
    free(p->tickets[HF_TLS_NEWEST - 1]);
    memmove(p->tickets + 1, p->tickets, (HF_TLS_NEWEST - 1) * sizeof(hf_tls_ticket *));
    p->tickets[0] = t;
    c->bytes += cost_of(p);
}

static void put(hf_tls_cache *c, const uint8_t *scope, const char *key, size_t key_len,
                const uint8_t *data, size_t n, int64_t valid_until) {
    hf_tls_peer *p = meet(c, scope, key, key_len);
    if (p != NULL && !has(p, data, n)) {
        add_ticket(c, p, data, n, valid_until);
    }
    while (c->bytes > c->most && c->oldest != NULL) {
        hf_tls_peer *oldest = c->oldest;
        unlink_peer(c, oldest);
        free_peer(oldest);
    }
}

void hf_tls_cache_put(hf_tls_cache *c, const uint8_t scope[HF_TLS_SCOPE],
                      const char *key, const uint8_t *data, size_t n,
                      int64_t valid_until, int64_t now) {
    size_t key_len = strlen(key);
    if (n == 0 || n > HF_TLS_TICKET_MOST || key_len == 0 || key_len > HF_TLS_KEY_MOST ||
        valid_until <= now) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    put(c, scope, key, key_len, data, n, valid_until);
    pthread_mutex_unlock(&c->lock);
}

/* A peer with the newest ticket of p, which keeps the others; p itself, which is out
 * of the store then, where there are none, or is no memory. */
static hf_tls_peer *split(hf_tls_cache *c, hf_tls_peer *p) {
    size_t size = sizeof *p + p->key_len + 1;
    hf_tls_peer *q = p->tickets[1] != NULL ? malloc(size) : NULL;
    if (q == NULL) {
        unlink_peer(c, p);
        return p;
    }
    memcpy(q, p, size);
    memset(q->tickets + 1, 0, sizeof q->tickets - sizeof *q->tickets);
    c->bytes -= cost_of(p);
    memmove(p->tickets, p->tickets + 1, sizeof p->tickets - sizeof *p->tickets);
    p->tickets[HF_TLS_NEWEST - 1] = NULL;
    c->bytes += cost_of(p);
    return q;
}

hf_tls_peer *hf_tls_cache_take(hf_tls_cache *c, const uint8_t scope[HF_TLS_SCOPE],
                               const char *name, size_t n) {
    uint32_t hash = hash_of(scope, name, n);
    hf_tls_peer *taken = NULL;
    hf_tls_peer *next;
    pthread_mutex_lock(&c->lock);
    for (hf_tls_peer *p = c->buckets[hash & (c->n_buckets - 1)]; p != NULL; p = next) {
        next = p->same;
        if (p->hash == hash && p->name_len == n &&
            memcmp(p->scope, scope, HF_TLS_SCOPE) == 0 &&
            memcmp(p->key, name, n) == 0) {
            hf_tls_peer *one = split(c, p);
            one->same = taken;
            taken = one;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return taken;
}
