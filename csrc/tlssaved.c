/* A store of TLS sessions as bytes: tlscache.h. */
#include <string.h>

#include "memo.h"
#include "tlscache.h"
#include "tlscache_parts.h"

/* What is saved: MAGIC, u32 version, u32 peers, salt; per peer its scope, u16 length of
 * the key, u8 tickets, the key, and per ticket i64 end, u32 length, bytes; then a u64
 * hf_memo_hash of all that. Little endian, the peers met longest ago first. */
#define VERSION 2
#define HEADER (sizeof MAGIC + 8 + HF_TLS_SALT)
#define SUM 8
#define PEER_HEAD (HF_TLS_SCOPE + 3)
#define TICKET_HEAD 12
static const uint8_t MAGIC[8] = {0x89, 'H', 'F', 'T', 'L', 'S', '\r', '\n'};

/* --- saving ------------------------------------------------------------------------
 */

static void write_number(uint8_t **at, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) {
        *(*at)++ = (uint8_t)(v >> (8 * i));
    }
}

static void write_bytes(uint8_t **at, const void *from, size_t n) {
    memcpy(*at, from, n);
    *at += n;
}

static int alive(const hf_tls_peer *p, int64_t now) {
    int n = 0;
    for (int i = 0; i < HF_TLS_NEWEST && p->tickets[i] != NULL; i++) {
        n += p->tickets[i]->valid_until > now;
    }
    return n;
}

static size_t saved_size(const hf_tls_peer *p, int64_t now) {
    size_t n = 0;
    for (int i = 0; i < HF_TLS_NEWEST && p->tickets[i] != NULL; i++) {
        n += p->tickets[i]->valid_until > now ? TICKET_HEAD + p->tickets[i]->n : 0;
    }
    return n > 0 ? n + PEER_HEAD + p->key_len : 0;
}

static void save_peer(const hf_tls_peer *p, int64_t now, uint8_t **at) {
    write_bytes(at, p->scope, HF_TLS_SCOPE);
    write_number(at, p->key_len, 2);
    write_number(at, (uint64_t)alive(p, now), 1);
    write_bytes(at, p->key, p->key_len);
    /* The newest last, as they came. */
    for (int i = HF_TLS_NEWEST - 1; i >= 0; i--) {
        const hf_tls_ticket *t = p->tickets[i];
        if (t != NULL && t->valid_until > now) {
            write_number(at, (uint64_t)t->valid_until, 8);
            write_number(at, t->n, 4);
            write_bytes(at, t->data, t->n);
        }
    }
}

static void save_all(const hf_tls_cache *c, int64_t now, uint32_t peers, uint8_t *out) {
    uint8_t *at = out;
    write_bytes(&at, MAGIC, sizeof MAGIC);
    write_number(&at, VERSION, 4);
    write_number(&at, peers, 4);
    write_bytes(&at, c->salt, HF_TLS_SALT);
    for (const hf_tls_peer *p = c->oldest; p != NULL; p = p->newer) {
        if (alive(p, now) > 0) {
            save_peer(p, now, &at);
        }
    }
    write_number(&at, hf_memo_hash(HF_MEMO_SEED, out, (size_t)(at - out)), SUM);
}

int64_t hf_tls_cache_save(hf_tls_cache *c, uint8_t *out, size_t cap, int64_t now) {
    size_t n = HEADER + SUM;
    uint32_t peers = 0;
    pthread_mutex_lock(&c->lock);
    for (const hf_tls_peer *p = c->oldest; p != NULL; p = p->newer) {
        n += saved_size(p, now);
        peers += alive(p, now) > 0;
    }
    if (n <= cap) {
        save_all(c, now, peers, out);
    }
    pthread_mutex_unlock(&c->lock);
    return (int64_t)n;
}

/* --- loading -----------------------------------------------------------------------
 */

/* What is still to be read; p NULL once something was missing. */
typedef struct reader {
    const uint8_t *p;
    size_t left;
} reader;

static const uint8_t *read_bytes(reader *r, size_t n) {
    const uint8_t *at = r->p;
    if (at == NULL || n > r->left) {
        r->p = NULL;
        return NULL;
    }
    r->p += n;
    r->left -= n;
    return at;
}

static uint64_t read_number(reader *r, int bytes) {
    const uint8_t *at = read_bytes(r, (size_t)bytes);
    uint64_t v = 0;
    for (int i = 0; at != NULL && i < bytes; i++) {
        v |= (uint64_t)at[i] << (8 * i);
    }
    return v;
}

static bool load_peer(hf_tls_cache *c, reader *r, int64_t now) {
    char key[HF_TLS_KEY_MOST + 1];
    const uint8_t *scope = read_bytes(r, HF_TLS_SCOPE);
    size_t key_len = (size_t)read_number(r, 2);
    uint64_t tickets = read_number(r, 1);
    const uint8_t *text = read_bytes(r, key_len);
    if (text == NULL || key_len > HF_TLS_KEY_MOST || tickets > HF_TLS_NEWEST) {
        return false;
    }
    memcpy(key, text, key_len);
    key[key_len] = '\0';
    for (uint64_t i = 0; i < tickets; i++) {
        int64_t valid_until = (int64_t)read_number(r, 8);
        size_t n = (size_t)read_number(r, 4);
        const uint8_t *data = read_bytes(r, n);
        if (data == NULL) {
            return false;
        }
        hf_tls_cache_put(c, scope, key, data, n, valid_until, now);
    }
    return true;
}

static bool load_all(hf_tls_cache *c, reader *r, int64_t now) {
    uint64_t version = read_number(r, 4);
    uint64_t peers = read_number(r, 4);
    const uint8_t *salt = read_bytes(r, HF_TLS_SALT);
    if (version != VERSION || salt == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < peers; i++) {
        if (!load_peer(c, r, now)) {
            return false;
        }
    }
    memcpy(c->salt, salt, HF_TLS_SALT);
    return r->left == 0;
}

int hf_tls_cache_load(hf_tls_cache *c, const uint8_t *p, size_t n, int64_t now) {
    if (n < sizeof MAGIC || memcmp(p, MAGIC, sizeof MAGIC) != 0) {
        return HF_EBAD;
    }
    if (n < HEADER + SUM) {
        return HF_EAGAIN;
    }
    reader sum = {p + n - SUM, SUM};
    reader rest = {p + sizeof MAGIC, n - SUM - sizeof MAGIC};
    if (read_number(&sum, SUM) == hf_memo_hash(HF_MEMO_SEED, p, n - SUM) &&
        load_all(c, &rest, now)) {
        return 0;
    }
    hf_tls_cache_clear(c);
    return HF_EAGAIN;
}

hf_tls_cache *hf_tls_cache_new(const uint8_t *saved, size_t len, int64_t now, char *err,
                               size_t errlen) {
    hf_errbuf eb = {err, errlen};
    hf_tls_cache *c = hf_tls_cache_make(HF_TLS_CACHE_BYTES);
    if (c == NULL) {
        hf_fail(eb, HF_ENOMEM, "no memory for a TLS cache");
        return NULL;
    }
    if (len > 0 && hf_tls_cache_load(c, saved, len, now) == HF_EBAD) {
        hf_tls_cache_free(c);
        hf_fail(eb, HF_EBAD, "it holds something else than a TLS cache");
        return NULL;
    }
    return c;
}
