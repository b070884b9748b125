/* The backlog: requests that wait for their turn, first in first out per host.
 *
 * libcurl never queues; what may start now is taken from here. A host is host:port.
 * Invariant: a host is in the ready list exactly when it has a queued request and may
 * start one; hosts are served in turn, so none blocks another. Not thread-safe: the
 * shard's owner only. No clock of its own, no I/O.
 */
#ifndef HF_SCHEDULE_H
#define HF_SCHEDULE_H

#include "request.h"

typedef struct hf_host {
    struct hf_host *same;       /* next in the bucket */
    struct hf_host *ready_next; /* in the ready list, or in the idle list */
    struct hf_host *ready_prev;
    hf_request *first; /* queue */
    hf_request *last;
    int32_t queued;
    int32_t in_flight;
    bool ready; /* in the ready list */
    uint32_t hash;
    uint32_t key_len;
    char key[]; /* host:port */
} hf_host;

typedef struct hf_host_list {
    hf_host *first;
    hf_host *last;
} hf_host_list;

typedef struct hf_schedule {
    hf_host **buckets; /* owned; a power of two */
    uint32_t n_buckets;
    uint32_t n_hosts;
    uint32_t n_idle; /* hosts without queue and flight, kept for their return */
    hf_host_list ready;
    hf_host_list idle;    /* oldest first */
    int32_t max_per_host; /* in flight; 0 = no limit */
    uint64_t queued;      /* requests in all queues */
} hf_schedule;

/* Returns 0 or HF_ENOMEM. */
int hf_schedule_init(hf_schedule *s, int32_t max_per_host);

/* Frees the hosts. Requests still queued stay their owner's. */
void hf_schedule_free(hf_schedule *s);

/* Appends r to its host's queue; at its head with again, for a retry.
 * Returns 0 or HF_ENOMEM. */
int hf_schedule_push(hf_schedule *s, hf_request *r, bool again);

/* Takes the next request that may start; its host has one more in flight then.
 * Returns NULL when none may. */
hf_request *hf_schedule_pop(hf_schedule *s);

/* Puts back what hf_schedule_pop gave, as if it had not been taken. */
void hf_schedule_unpop(hf_schedule *s, hf_request *r);

/* Takes a queued request out. */
void hf_schedule_remove(hf_schedule *s, hf_request *r);

/* Ends the flight of r: its host may start another. */
void hf_schedule_landed(hf_schedule *s, hf_request *r);

/* Any queued request, or NULL: for emptying the backlog. */
hf_request *hf_schedule_any(hf_schedule *s);

/* The hash that shards and buckets go by (FNV-1a). */
uint32_t hf_host_hash(const char *key, size_t n);

#endif
