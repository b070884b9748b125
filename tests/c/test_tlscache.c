/* The store of TLS sessions: what it keeps, what it gives, and hostile files. */
#include <pthread.h>

#include "check.h"
#include "fence.h"
#include "memo.h"
#include "tlscache.h"

#define NOW 1000
#define LATER 5000
#define KEY_END ":TLSVER-6-0:CA-/ca.pem:IMPL-BoringSSL:G"

static const uint8_t ME[HF_TLS_SCOPE] = "me, myself and I";
static const uint8_t OTHER[HF_TLS_SCOPE] = "somebody else...";

static hf_tls_cache *make(size_t most) {
    hf_tls_cache *c = hf_tls_cache_make(most);
    REQUIRE(c != NULL);
    return c;
}

static void put(hf_tls_cache *c, const uint8_t *scope, const char *host,
                const char *data) {
    char key[300];
    snprintf(key, sizeof key, "%s%s", host, KEY_END);
    hf_tls_cache_put(c, scope, key, (const uint8_t *)data, strlen(data), LATER, NOW);
}

static hf_tls_peer *take(hf_tls_cache *c, const uint8_t *scope, const char *host) {
    return hf_tls_cache_take(c, scope, host, strlen(host));
}

/* Whether what is taken next of the host is this ticket, and no other with it. */
static bool gives(hf_tls_cache *c, const uint8_t *scope, const char *host,
                  const char *data) {
    hf_tls_peer *p = take(c, scope, host);
    const hf_tls_ticket *t = p != NULL ? p->tickets[0] : NULL;
    bool holds = t != NULL && t->n == strlen(data) && t->valid_until == LATER &&
                 memcmp(t->data, data, t->n) == 0 && p->tickets[1] == NULL &&
                 p->same == NULL && strncmp(p->key, host, strlen(host)) == 0 &&
                 strcmp(p->key + strlen(host), KEY_END) == 0;
    hf_tls_peers_free(p);
    return holds;
}

static size_t peers_in(hf_tls_cache *c) {
    size_t peers;
    size_t bytes;
    hf_tls_cache_size(c, &peers, &bytes);
    CHECK((peers == 0) == (bytes == 0));
    return peers;
}

static void the_newest_two_are_given_once(void) {
    hf_tls_cache *c = make(1 << 20);
    put(c, ME, "a.test:443", "one");
    put(c, ME, "a.test:443", "two");
    put(c, ME, "a.test:443", "three");
    put(c, ME, "a.test:443", "two");
    CHECK(gives(c, ME, "a.test:443", "three"));
    CHECK_EQ(peers_in(c), 1);
    put(c, ME, "a.test:443", "four");
    CHECK(gives(c, ME, "a.test:443", "four"));
    CHECK(gives(c, ME, "a.test:443", "two"));
    CHECK(take(c, ME, "a.test:443") == NULL);
    CHECK_EQ(peers_in(c), 0);
    hf_tls_cache_free(c);
}

static void nobody_gets_what_is_of_another(void) {
    hf_tls_cache *c = make(1 << 20);
    put(c, ME, "a.test:443", "mine");
    CHECK(take(c, OTHER, "a.test:443") == NULL);
    CHECK(take(c, ME, "a.test:4430") == NULL);
    CHECK(take(c, ME, "a.test:44") == NULL);
    CHECK(take(c, ME, "a.test") == NULL);
    CHECK(take(c, ME, "b.test:443") == NULL);
    CHECK(gives(c, ME, "a.test:443", "mine"));
    hf_tls_cache_free(c);
}

static void all_transports_of_a_host_come_together(void) {
    hf_tls_cache *c = make(1 << 20);
    static const char *const keys[] = {"[::1]:443" KEY_END, "[::1]:443:QUIC" KEY_END,
                                       "::1:443" KEY_END, "[::1]:443"};
    for (int i = 0; i < 4; i++) {
        hf_tls_cache_put(c, ME, keys[i], (const uint8_t *)"x", 1, LATER, NOW);
    }
    hf_tls_peer *p = take(c, ME, "[::1]:443");
    int n = 0;
    for (const hf_tls_peer *q = p; q != NULL; q = q->same) {
        n++;
    }
    CHECK_EQ(n, 3);
    hf_tls_peers_free(p);
    CHECK_EQ(peers_in(c), 1);
    hf_tls_cache_free(c);
}

static void what_cannot_be_used_is_passed_over(void) {
    hf_tls_cache *c = make(1 << 20);
    static uint8_t big[HF_TLS_TICKET_MOST + 1];
    hf_tls_cache_put(c, ME, "a:1", big, sizeof big, LATER, NOW);
    hf_tls_cache_put(c, ME, "a:1", big, 0, LATER, NOW);
    hf_tls_cache_put(c, ME, "a:1", big, 1, NOW, NOW);
    hf_tls_cache_put(c, ME, "", big, 1, LATER, NOW);
    CHECK_EQ(peers_in(c), 0);
    hf_tls_cache_put(c, ME, "a:1", big, sizeof big - 1, LATER, NOW);
    CHECK_EQ(peers_in(c), 1);
    hf_tls_cache_free(c);
}

static void past_its_maximum_the_oldest_give_way(void) {
    enum { MOST = 100000, HOSTS = 3000 };
    hf_tls_cache *c = make(MOST);
    char host[32];
    size_t peers;
    size_t bytes;
    for (int i = 0; i < HOSTS; i++) {
        snprintf(host, sizeof host, "h%d.test:443", i);
        put(c, ME, host, "0123456789");
        put(c, ME, "kept.test:443", i % 2 == 0 ? "even" : "odd");
        hf_tls_cache_size(c, &peers, &bytes);
        CHECK(bytes <= MOST);
    }
    CHECK(peers > 100 && peers < HOSTS);
    CHECK(take(c, ME, "h0.test:443") == NULL);
    CHECK(gives(c, ME, "kept.test:443", "odd"));
    CHECK(gives(c, ME, "kept.test:443", "even"));
    CHECK(gives(c, ME, host, "0123456789"));
    hf_tls_cache_free(c);
}

static void scopes_tell_identities_apart_and_salts_hide_them(void) {
    hf_tls_cache *a = make(1 << 20);
    hf_tls_cache *b = make(1 << 20);
    uint8_t one[HF_TLS_SCOPE];
    uint8_t same[HF_TLS_SCOPE];
    uint8_t two[HF_TLS_SCOPE];
    uint8_t salted[HF_TLS_SCOPE];
    hf_tls_cache_scope(a, (const uint8_t *)"user:pass", 9, one);
    hf_tls_cache_scope(a, (const uint8_t *)"user:pass", 9, same);
    hf_tls_cache_scope(a, (const uint8_t *)"user:past", 9, two);
    hf_tls_cache_scope(b, (const uint8_t *)"user:pass", 9, salted);
    CHECK(memcmp(one, same, sizeof one) == 0);
    CHECK(memcmp(one, two, sizeof one) != 0);
    CHECK(memcmp(one, salted, sizeof one) != 0);
    hf_tls_cache_free(a);
    hf_tls_cache_free(b);
}

/* A store with some peers, and its bytes, which the caller frees. */
static uint8_t *saved(size_t *n) {
    hf_tls_cache *c = make(1 << 20);
    char host[32];
    for (int i = 0; i < 20; i++) {
        snprintf(host, sizeof host, "h%d.test:443", i);
        put(c, ME, host, "first ticket");
        put(c, i % 2 == 0 ? ME : OTHER, host, "second ticket");
    }
    hf_tls_cache_put(c, ME, "over.test:443" KEY_END, (const uint8_t *)"x", 1, NOW + 1,
                     NOW);
    *n = (size_t)hf_tls_cache_save(c, NULL, 0, NOW + 1);
    uint8_t *bytes = malloc(*n);
    REQUIRE(bytes != NULL);
    CHECK_EQ(hf_tls_cache_save(c, bytes, *n - 1, NOW + 1), *n);
    CHECK_EQ(hf_tls_cache_save(c, bytes, *n, NOW + 1), *n);
    hf_tls_cache_free(c);
    return bytes;
}

static void what_is_saved_comes_back_with_its_scopes(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    hf_tls_cache *c = make(1 << 20);
    uint8_t before[HF_TLS_SCOPE];
    uint8_t after[HF_TLS_SCOPE];
    CHECK_EQ(hf_tls_cache_load(c, bytes, n, NOW + 1), 0);
    CHECK_EQ(peers_in(c), 30);
    CHECK(take(c, ME, "over.test:443") == NULL);
    CHECK(gives(c, ME, "h2.test:443", "second ticket"));
    CHECK(gives(c, ME, "h2.test:443", "first ticket"));
    CHECK(gives(c, OTHER, "h3.test:443", "second ticket"));
    CHECK(take(c, OTHER, "h3.test:443") == NULL);
    /* The same identity has the same scope in the next run. */
    hf_tls_cache *next = make(1 << 20);
    uint8_t again[4096];
    size_t m = (size_t)hf_tls_cache_save(c, again, sizeof again, NOW + 1);
    REQUIRE(m <= sizeof again);
    CHECK_EQ(hf_tls_cache_load(next, again, m, NOW + 1), 0);
    hf_tls_cache_scope(c, (const uint8_t *)"id", 2, before);
    hf_tls_cache_scope(next, (const uint8_t *)"id", 2, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
    hf_tls_cache_free(next);
    hf_tls_cache_free(c);
    free(bytes);
}

static void sessions_that_ended_are_not_loaded(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    hf_tls_cache *c = make(1 << 20);
    CHECK_EQ(hf_tls_cache_load(c, bytes, n, LATER), 0);
    CHECK_EQ(peers_in(c), 0);
    hf_tls_cache_free(c);
    free(bytes);
}

/* As a file of n bytes that ends where memory ends. */
static int load(const uint8_t *bytes, size_t n) {
    static fence f;
    if (f.end == NULL) {
        f = fence_new(1 << 16);
    }
    REQUIRE(n <= 1 << 16);
    memcpy(f.end - n, bytes, n);
    hf_tls_cache *c = make(1 << 20);
    int rc = hf_tls_cache_load(c, f.end - n, n, NOW);
    if (rc != 0) {
        CHECK_EQ(peers_in(c), 0);
    }
    hf_tls_cache_free(c);
    return rc;
}

static void cut_anywhere_it_is_empty(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(load(bytes, i), i < 8 ? HF_EBAD : HF_EAGAIN);
    }
    CHECK_EQ(load(bytes, n), 0);
    free(bytes);
}

static void sign(uint8_t *bytes, size_t n) {
    uint64_t sum = hf_memo_hash(HF_MEMO_SEED, bytes, n - 8);
    for (int i = 0; i < 8; i++) {
        bytes[n - 8 + (size_t)i] = (uint8_t)(sum >> (8 * i));
    }
}

static void each_changed_byte_is_noticed(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0x40;
        CHECK_EQ(load(bytes, n), i < 8 ? HF_EBAD : HF_EAGAIN);
        bytes[i] ^= 0x40;
    }
    free(bytes);
}

/* The sum keeps nobody out who can compute it: every length is checked. */
static void signed_nonsense_harms_nothing(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    int refused = 0;
    for (size_t i = 8; i < n - 8; i++) {
        uint8_t was = bytes[i];
        for (size_t v = 0; v < sizeof values; v++) {
            bytes[i] = values[v];
            sign(bytes, n);
            refused += load(bytes, n) != 0;
        }
        bytes[i] = was;
    }
    CHECK(refused > 100);
    for (size_t cut = 40; cut < n; cut += 7) {
        sign(bytes, cut);
        CHECK_EQ(load(bytes, cut), HF_EAGAIN);
    }
    free(bytes);
}

static void another_version_starts_afresh(void) {
    size_t n;
    uint8_t *bytes = saved(&n);
    bytes[8] = 1;
    sign(bytes, n);
    CHECK_EQ(load(bytes, n), HF_EAGAIN);
    char err[160] = "";
    hf_tls_cache *c = hf_tls_cache_new(bytes, n, NOW, err, sizeof err);
    CHECK(c != NULL && peers_in(c) == 0);
    hf_tls_cache_free(c);
    c = hf_tls_cache_new((const uint8_t *)"my thesis", 9, NOW, err, sizeof err);
    CHECK(c == NULL && strstr(err, "something else") != NULL);
    c = hf_tls_cache_new(NULL, 0, NOW, err, sizeof err);
    CHECK(c != NULL);
    hf_tls_cache_free(c);
    free(bytes);
}

typedef struct worker {
    hf_tls_cache *cache;
    pthread_t thread;
    int number;
    int taken;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    char host[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(host, sizeof host, "h%d.test:443", i % 61);
        put(w->cache, ME, host, w->number == 0 ? "zero" : "one");
        snprintf(host, sizeof host, "h%d.test:443", (i + w->number * 7) % 61);
        hf_tls_peer *p = take(w->cache, ME, host);
        w->taken += p != NULL;
        hf_tls_peers_free(p);
    }
    hf_tls_cache_free(w->cache);
    return NULL;
}

static void many_threads_may_use_it_and_the_last_hold_frees(void) {
    enum { THREADS = 4 };
    hf_tls_cache *c = make(4000);
    worker all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        all[i] = (worker){.cache = hf_tls_cache_hold(c), .number = i};
        REQUIRE(pthread_create(&all[i].thread, NULL, work, &all[i]) == 0);
    }
    hf_tls_cache_free(c);
    int taken = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        taken += all[i].taken;
    }
    CHECK(taken > 0);
}

int main(void) {
    RUN(the_newest_two_are_given_once);
    RUN(nobody_gets_what_is_of_another);
    RUN(all_transports_of_a_host_come_together);
    RUN(what_cannot_be_used_is_passed_over);
    RUN(past_its_maximum_the_oldest_give_way);
    RUN(scopes_tell_identities_apart_and_salts_hide_them);
    RUN(what_is_saved_comes_back_with_its_scopes);
    RUN(sessions_that_ended_are_not_loaded);
    RUN(cut_anywhere_it_is_empty);
    RUN(each_changed_byte_is_noticed);
    RUN(signed_nonsense_harms_nothing);
    RUN(another_version_starts_afresh);
    RUN(many_threads_may_use_it_and_the_last_hold_frees);
    return check_result();
}
