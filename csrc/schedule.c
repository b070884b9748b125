#include "schedule.h"

#include <stdlib.h>
#include <string.h>

/* Idle hosts kept, so that a host that comes back needs no allocation. */
#define IDLE_HOSTS 1024
#define FIRST_BUCKETS 256

uint32_t hf_host_hash(const char *key, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)key[i]) * 16777619u;
    }
    return h;
}

static void list_append(hf_host_list *l, hf_host *h) {
    h->ready_next = NULL;
    h->ready_prev = l->last;
    if (l->last != NULL) {
        l->last->ready_next = h;
    } else {
        l->first = h;
    }
    l->last = h;
}

static void list_remove(hf_host_list *l, hf_host *h) {
    if (h->ready_prev != NULL) {
        h->ready_prev->ready_next = h->ready_next;
    } else {
        l->first = h->ready_next;
    }
    if (h->ready_next != NULL) {
        h->ready_next->ready_prev = h->ready_prev;
    } else {
        l->last = h->ready_prev;
    }
    h->ready_next = h->ready_prev = NULL;
}

int hf_schedule_init(hf_schedule *s, int32_t max_per_host) {
    memset(s, 0, sizeof *s);
    s->max_per_host = max_per_host;
    s->n_buckets = FIRST_BUCKETS;
    s->buckets = calloc(s->n_buckets, sizeof(hf_host *));
    return s->buckets != NULL ? 0 : HF_ENOMEM;
}

void hf_schedule_free(hf_schedule *s) {
    for (uint32_t i = 0; i < s->n_buckets && s->buckets != NULL; i++) {
        while (s->buckets[i] != NULL) {
            hf_host *h = s->buckets[i];
            s->buckets[i] = h->same;
            free(h);
        }
    }
    free(s->buckets);
    memset(s, 0, sizeof *s);
}

/* Doubles the table; without memory for it the chains just get longer. */
static void grow(hf_schedule *s) {
    uint32_t n = s->n_buckets * 2;
    hf_host **buckets = calloc(n, sizeof(hf_host *));
    if (buckets == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        while (s->buckets[i] != NULL) {
            hf_host *h = s->buckets[i];
            s->buckets[i] = h->same;
            h->same = buckets[h->hash & (n - 1)];
            buckets[h->hash & (n - 1)] = h;
        }
    }
    free(s->buckets);
    s->buckets = buckets;
    s->n_buckets = n;
}

static hf_host *find(hf_schedule *s, const char *key, uint32_t n, uint32_t hash) {
    hf_host *h = s->buckets[hash & (s->n_buckets - 1)];
    while (h != NULL &&
           (h->hash != hash || h->key_len != n || memcmp(h->key, key, n) != 0)) {
        h = h->same;
    }
    return h;
}

static hf_host *find_or_add(hf_schedule *s, const char *key, uint32_t n) {
    uint32_t hash = hf_host_hash(key, n);
    hf_host *h = find(s, key, n, hash);
    if (h != NULL) {
        if (h->queued == 0 && h->in_flight == 0) {
            list_remove(&s->idle, h);
            s->n_idle--;
        }
        return h;
    }
    h = calloc(1, sizeof *h + n + 1);
    if (h == NULL) {
        return NULL;
    }
    memcpy(h->key, key, n);
    h->key_len = n;
    h->hash = hash;
    if (s->n_hosts >= s->n_buckets) {
        grow(s);
    }
    h->same = s->buckets[hash & (s->n_buckets - 1)];
    s->buckets[hash & (s->n_buckets - 1)] = h;
    s->n_hosts++;
    return h;
}

static void drop_host(hf_schedule *s, hf_host *h) {
    hf_host **at = &s->buckets[h->hash & (s->n_buckets - 1)];
    while (*at != h) {
        at = &(*at)->same;
    }
    *at = h->same;
    s->n_hosts--;
    free(h);
}

/* Puts the host into the list where its state wants it. */
static void settle(hf_schedule *s, hf_host *h) {
    bool may =
        h->queued > 0 && (s->max_per_host == 0 || h->in_flight < s->max_per_host);
    if (may && !h->ready) {
        list_append(&s->ready, h);
    } else if (!may && h->ready) {
        list_remove(&s->ready, h);
    }
    h->ready = may;
    if (h->queued > 0 || h->in_flight > 0) {
        return;
    }
    list_append(&s->idle, h);
    s->n_idle++;
    if (s->n_idle > IDLE_HOSTS) {
        hf_host *oldest = s->idle.first;
        list_remove(&s->idle, oldest);
        s->n_idle--;
        drop_host(s, oldest);
    }
}

static void enqueue(hf_host *h, hf_request *r, bool front) {
    r->next = front ? h->first : NULL;
    r->prev = front ? NULL : h->last;
    if (r->next != NULL) {
        r->next->prev = r;
    } else {
        h->last = r;
    }
    if (r->prev != NULL) {
        r->prev->next = r;
    } else {
        h->first = r;
    }
    h->queued++;
}

static void dequeue(hf_host *h, hf_request *r) {
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        h->first = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        h->last = r->prev;
    }
    r->next = r->prev = NULL;
    h->queued--;
}

int hf_schedule_push(hf_schedule *s, hf_request *r, bool again) {
    hf_host *h = find_or_add(s, r->url.hostport, r->url.hostport_len);
    if (h == NULL) {
        return HF_ENOMEM;
    }
    r->host = h;
    r->state = HF_R_QUEUED;
    enqueue(h, r, again);
    s->queued++;
    settle(s, h);
    return 0;
}

hf_request *hf_schedule_pop(hf_schedule *s) {
    hf_host *h = s->ready.first;
    if (h == NULL) {
        return NULL;
    }
    hf_request *r = h->first;
    dequeue(h, r);
    h->in_flight++;
    s->queued--;
    /* To the end of the line, so that the hosts take turns. */
    list_remove(&s->ready, h);
    h->ready = false;
    settle(s, h);
    return r;
}

void hf_schedule_unpop(hf_schedule *s, hf_request *r) {
    hf_host *h = r->host;
    h->in_flight--;
    r->state = HF_R_QUEUED;
    enqueue(h, r, true);
    s->queued++;
    settle(s, h);
}

void hf_schedule_remove(hf_schedule *s, hf_request *r) {
    dequeue(r->host, r);
    s->queued--;
    settle(s, r->host);
    r->host = NULL;
}

void hf_schedule_landed(hf_schedule *s, hf_request *r) {
    r->host->in_flight--;
    settle(s, r->host);
    r->host = NULL;
}

hf_request *hf_schedule_any(hf_schedule *s) {
    if (s->queued == 0) {
        return NULL;
    }
    if (s->ready.first != NULL) {
        return s->ready.first->first;
    }
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        for (hf_host *h = s->buckets[i]; h != NULL; h = h->same) {
            if (h->first != NULL) {
                return h->first;
            }
        }
    }
    return NULL;
}
