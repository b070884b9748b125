#include "sessions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loop.h"

/* Notes between two batches: below the 25 peers of libcurl's cache, as each may be of
 * one, also where a whole window's tickets come at once. */
#define BATCH 16
#define PEERS 32

typedef struct batch {
    hf_sessions *sessions;
    int64_t now; /* Unix time */
    int32_t n;
    char *keys[PEERS]; /* owned; of the peers that had sessions */
} batch;

int hf_sessions_init(hf_identity *id) {
    hf_sessions *s = &id->sessions;
    const hf_curl *c = id->loop->curl;
    hf_tls_cache *store = id->loop->settings->c.tls_cache;
    if (store == NULL || c->curl_easy_ssls_export == NULL ||
        c->curl_easy_ssls_import == NULL) {
        return 0;
    }
    s->keeper = c->curl_easy_init();
    if (s->keeper == NULL) {
        return HF_ENOMEM;
    }
    c->curl_easy_setopt(s->keeper, CURLOPT_SHARE, id->share);
    hf_tls_cache_scope(store, id->key, id->key_len, s->scope);
    s->store = store;
    return 0;
}

/* --- from libcurl to the store -----------------------------------------------------
 */

static int on_session(CURL *easy, void *data, const char *key,
                      const unsigned char *shmac, size_t shmac_len,
                      const unsigned char *packed, size_t n, curl_off_t valid_until,
                      int version, const char *alpn, size_t early) {
    batch *b = data;
    (void)easy;
    (void)shmac;
    (void)shmac_len;
    (void)version;
    (void)alpn;
    (void)early;
    if (key == NULL) {
        return CURLE_OK; /* put back and not taken: whose it is only libcurl knows */
    }
    hf_tls_cache_put(b->sessions->store, b->sessions->scope, key, packed, n,
                     valid_until, b->now);
    bool again = b->n > 0 && strcmp(b->keys[b->n - 1], key) == 0;
    if (!again && b->n < PEERS) {
        b->keys[b->n] = strdup(key);
        b->n += b->keys[b->n] != NULL;
    }
    return CURLE_OK;
}

static int on_rest(CURL *easy, void *data, const char *key, const unsigned char *shmac,
                   size_t shmac_len, const unsigned char *packed, size_t n,
                   curl_off_t valid_until, int version, const char *alpn,
                   size_t early) {
    (void)easy;
    (void)data;
    (void)key;
    (void)shmac;
    (void)shmac_len;
    (void)packed;
    (void)n;
    (void)valid_until;
    (void)version;
    (void)alpn;
    (void)early;
    return CURLE_OK;
}

/* Empties the places of the peers in libcurl's cache. It has no call for that, but a
 * session below TLS 1.3 replaces all others of its peer, and one that is over is
 * dropped at the next export. Else 24 peers would hold their places for good. Where the
 * packed form is another (libcurl's vtls_spack.c: version, then tags), it is just
 * refused. */
static void empty_places(const hf_curl *c, batch *b) {
    static const unsigned char over[] = {1,                         /* the form's */
                                         2, 3, 3,                   /* TLS 1.2 */
                                         3, 0, 0, 0, 0, 0, 0, 0, 1, /* until 1970 */
                                         4, 0, 1, 0};               /* a session */
    for (int32_t i = 0; i < b->n; i++) {
        c->curl_easy_ssls_import(b->sessions->keeper, b->keys[i], NULL, 0, over,
                                 sizeof over);
        free(b->keys[i]);
    }
    if (b->n > 0) {
        c->curl_easy_ssls_export(b->sessions->keeper, on_rest, NULL);
    }
}

static void collect(hf_identity *id) {
    const hf_curl *c = id->loop->curl;
    batch b = {.sessions = &id->sessions, .now = time(NULL)};
    c->curl_easy_ssls_export(id->sessions.keeper, on_session, &b);
    empty_places(c, &b);
    id->sessions.noted = 0;
}

void hf_sessions_note(hf_identity *id) {
    if (id->sessions.store != NULL && ++id->sessions.noted >= BATCH) {
        collect(id);
    }
}

void hf_sessions_end(hf_identity *id) {
    if (id->sessions.store != NULL) {
        collect(id);
    }
    if (id->sessions.keeper != NULL) {
        id->loop->curl->curl_easy_cleanup(id->sessions.keeper);
    }
    memset(&id->sessions, 0, sizeof id->sessions);
}

/* --- from the store to libcurl -----------------------------------------------------
 */

void hf_sessions_offer(hf_identity *id, const hf_url *url) {
    hf_sessions *s = &id->sessions;
    if (s->store == NULL) {
        return;
    }
    hf_tls_peer *taken =
        hf_tls_cache_take(s->store, s->scope, url->hostport, url->hostport_len);
    if (taken != NULL) {
        hf_sessions_note(id); /* one below TLS 1.3 keeps its place */
    }
    for (const hf_tls_peer *p = taken; p != NULL; p = p->same) {
        const hf_tls_ticket *t = p->tickets[0];
        if (t != NULL) {
            id->loop->curl->curl_easy_ssls_import(s->keeper, p->key, NULL, 0, t->data,
                                                  t->n);
        }
    }
    hf_tls_peers_free(taken);
}
