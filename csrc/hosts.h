/* The hosts that a shard knows, by host:port, each with its queue, pace and lanes.
 *
 * Those without queue and flight are kept for their return, up to a number; past it the
 * oldest whose pace holds nothing goes. Not thread-safe: the shard's owner only. No
 * clock of its own, no I/O. What a queue's order is, and whose turn: schedule.h.
 */
#ifndef HF_HOSTS_H
#define HF_HOSTS_H

#include "pace.h"
#include "request.h"

typedef struct hf_host {
    struct hf_host *same;       /* next in the bucket */
    struct hf_host *ready_next; /* in the ready list, or in the idle list */
    struct hf_host *ready_prev;
    hf_request *first; /* queue */
    hf_request *last;
    hf_request *moving; /* the last of those under way, which are in front */
    hf_request *eager;  /* the last of those, and retries, that go before the others */
    hf_due due;         /* when to ask its pace again, in the shard's heap */
    hf_pace pace;
    int64_t known_until;   /* us: its name was looked up; HF_NEVER = an address */
    int32_t max_in_flight; /* 0 = no limit */
    int32_t *warm; /* owned: lanes where idle connections were left, latest last */
    int32_t n_warm;
    int32_t cap_warm;
    int32_t home; /* lane that served it last */
    int32_t queued;
    int32_t in_flight;
    uint32_t tls_made; /* connections that would ask for its HTTPS record */
    uint32_t passed;   /* turns left to others while in doubt */
    bool ready;        /* in the ready list */
    bool idle;         /* in the idle list */
    bool waiting;      /* for its pace or name: until due, or an end of one in flight */
    bool unnamed;      /* its name did not resolve the last time */
    uint32_t hash;
    uint32_t key_len;
    char key[]; /* host:port */
} hf_host;

typedef struct hf_host_list {
    hf_host *first;
    hf_host *last;
} hf_host_list;

typedef struct hf_hosts {
    hf_host **buckets; /* owned; a power of two */
    uint32_t n_buckets;
    uint32_t n;
    uint32_t n_idle;
    hf_host_list idle;       /* oldest first */
    const hf_config *config; /* limits */
    hf_heap *heap;           /* the shard's; hosts wait in it with kind HF_KIND_HOST */
} hf_hosts;

/* Kinds of nodes in the shard's heap. */
enum { HF_KIND_REQUEST, HF_KIND_HOST };

/* The hash that shards and buckets go by (FNV-1a). */
uint32_t hf_host_hash(const char *key, size_t n);

/* config and heap stay the caller's and must outlive t. Returns 0 or HF_ENOMEM. */
int hf_hosts_init(hf_hosts *t, const hf_config *config, hf_heap *heap);

/* Frees the hosts. Requests in their queues stay their owner's. */
void hf_hosts_free(hf_hosts *t);

/* The host by its key, made with its limits when it is not there, and in no list then.
 * Returns NULL without memory. */
hf_host *hf_hosts_get(hf_hosts *t, const char *key, uint32_t n);

/* The host has a queue or a flight: it is none of the idle ones, if it was one. */
void hf_hosts_busy(hf_hosts *t, hf_host *h);

/* The host has neither and is in no list: it becomes the youngest of the idle ones, if
 * it is none yet, and others, or it, may be freed. */
void hf_hosts_idle(hf_hosts *t, hf_host *h, int64_t now);

/* A host with a queue, or NULL: looks through all. */
hf_host *hf_hosts_queued(const hf_hosts *t);

/* Puts h behind `after`; NULL: to the front. */
static inline void hf_host_list_insert(hf_host_list *l, hf_host *h, hf_host *after) {
    h->ready_prev = after;
    h->ready_next = after != NULL ? after->ready_next : l->first;
    *(h->ready_next != NULL ? &h->ready_next->ready_prev : &l->last) = h;
    *(after != NULL ? &after->ready_next : &l->first) = h;
}

static inline void hf_host_list_remove(hf_host_list *l, hf_host *h) {
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

#endif
