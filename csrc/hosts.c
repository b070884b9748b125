#include "hosts.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Idle hosts kept, so that a host that comes back needs no allocation. */
#define IDLE_HOSTS 1024
/* Idle hosts looked at for one that may go; the others are moved behind. */
#define EVICTION_LOOKS 4
#define FIRST_BUCKETS 256

uint32_t hf_host_hash(const char *key, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)key[i]) * 16777619u;
    }
    return h;
}

int hf_hosts_init(hf_hosts *t, const hf_config *config, hf_heap *heap) {
    memset(t, 0, sizeof *t);
    t->config = config;
    t->heap = heap;
    t->n_buckets = FIRST_BUCKETS;
    t->buckets = calloc(t->n_buckets, sizeof(hf_host *));
    return t->buckets != NULL ? 0 : HF_ENOMEM;
}

void hf_hosts_free(hf_hosts *t) {
    for (uint32_t i = 0; i < t->n_buckets && t->buckets != NULL; i++) {
        while (t->buckets[i] != NULL) {
            hf_host *h = t->buckets[i];
            t->buckets[i] = h->same;
            free(h->warm);
            free(h);
        }
    }
    free(t->buckets);
    memset(t, 0, sizeof *t);
}

/* Doubles the table; without memory for it the chains just get longer. */
static void grow(hf_hosts *t) {
    uint32_t n = t->n_buckets * 2;
    hf_host **buckets = calloc(n, sizeof(hf_host *));
    if (buckets == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        while (t->buckets[i] != NULL) {
            hf_host *h = t->buckets[i];
            t->buckets[i] = h->same;
            h->same = buckets[h->hash & (n - 1)];
            buckets[h->hash & (n - 1)] = h;
        }
    }
    free(t->buckets);
    t->buckets = buckets;
    t->n_buckets = n;
}

static hf_host *find(hf_hosts *t, const char *key, uint32_t n, uint32_t hash) {
    hf_host *h = t->buckets[hash & (t->n_buckets - 1)];
    while (h != NULL &&
           (h->hash != hash || h->key_len != n || memcmp(h->key, key, n) != 0)) {
        h = h->same;
    }
    return h;
}

/* Does the row's pattern match the key, host:port in lower case? */
static bool row_matches(const hf_host_limits *row, const hf_host *h) {
    char host[256];
    size_t n = h->key_len;
    if (!row->with_port) {
        while (n > 0 && h->key[n - 1] != ':') {
            n--;
        }
        n = n > 0 ? n - 1 : 0;
    }
    if (n >= sizeof host) {
        return false;
    }
    memcpy(host, h->key, n);
    host[n] = '\0';
    return fnmatch(row->pattern, host, 0) == 0;
}

static void set_limits(const hf_config *c, hf_host *h) {
    const hf_host_limits *found = NULL;
    for (int32_t i = 0; i < c->n_host_limits && found == NULL; i++) {
        if (row_matches(&c->host_limits[i], h)) {
            found = &c->host_limits[i];
        }
    }
    hf_pace_init(&h->pace, found);
    h->max_in_flight = found != NULL ? found->max_per_host : c->max_per_host;
}

/* Whether the key's host is an address and no name. */
static bool is_address(const char *key, uint32_t n) {
    struct in_addr v4;
    char host[INET_ADDRSTRLEN];
    while (n > 0 && key[n - 1] != ':') {
        n--;
    }
    if (key[0] == '[' || n == 0 || n > sizeof host) {
        return key[0] == '[';
    }
    memcpy(host, key, n - 1);
    host[n - 1] = '\0';
    return inet_pton(AF_INET, host, &v4) == 1;
}

hf_host *hf_hosts_get(hf_hosts *t, const char *key, uint32_t n) {
    uint32_t hash = hf_host_hash(key, n);
    hf_host *h = find(t, key, n, hash);
    if (h != NULL) {
        return h;
    }
    h = calloc(1, sizeof *h + n + 1);
    if (h == NULL) {
        return NULL;
    }
    memcpy(h->key, key, n);
    h->key_len = n;
    h->hash = hash;
    h->due = hf_due_make(HF_KIND_HOST);
    h->known_until = is_address(key, n) ? HF_NEVER : 0;
    set_limits(t->config, h);
    if (t->n >= t->n_buckets) {
        grow(t);
    }
    h->same = t->buckets[hash & (t->n_buckets - 1)];
    t->buckets[hash & (t->n_buckets - 1)] = h;
    t->n++;
    return h;
}

static void drop_host(hf_hosts *t, hf_host *h) {
    hf_host **at = &t->buckets[h->hash & (t->n_buckets - 1)];
    while (*at != h) {
        at = &(*at)->same;
    }
    *at = h->same;
    t->n--;
    hf_heap_remove(t->heap, &h->due);
    free(h->warm);
    free(h);
}

void hf_hosts_busy(hf_hosts *t, hf_host *h) {
    if (h->idle) {
        hf_host_list_remove(&t->idle, h);
        t->n_idle--;
        h->idle = false;
    }
}

/* Drops hosts over the maximum whose pace holds nothing; looks at a few, so that no
 * call is long. */
static void evict(hf_hosts *t, int64_t now) {
    for (int i = 0; i < EVICTION_LOOKS && t->n_idle > IDLE_HOSTS; i++) {
        hf_host *oldest = t->idle.first;
        hf_host_list_remove(&t->idle, oldest);
        if (hf_pace_idle(&oldest->pace, now)) {
            t->n_idle--;
            drop_host(t, oldest);
        } else {
            hf_host_list_insert(&t->idle, oldest, t->idle.last);
        }
    }
}

void hf_hosts_idle(hf_hosts *t, hf_host *h, int64_t now) {
    if (!h->idle) {
        h->idle = true;
        hf_host_list_insert(&t->idle, h, t->idle.last);
        t->n_idle++;
        evict(t, now);
    }
}

hf_host *hf_hosts_queued(const hf_hosts *t) {
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        for (hf_host *h = t->buckets[i]; h != NULL; h = h->same) {
            if (h->first != NULL) {
                return h;
            }
        }
    }
    return NULL;
}
