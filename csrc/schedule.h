/* The backlog: requests that wait for their turn, first in first out per host.
 *
 * Where a host's name may have to be looked up, one request goes first and the others
 * follow when it has an address: so that many at once ask the name server once.
 *
 * libcurl never queues; what may start now is taken from here. A host is host:port.
 * Invariant: a host is in the ready list exactly when it has a queued request and may
 * start one; hosts are served in turn, so none blocks another. Not thread-safe: the
 * shard's owner only. No clock of its own, no I/O.
 */
#ifndef HF_SCHEDULE_H
#define HF_SCHEDULE_H

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
    uint32_t passed; /* turns left to others while in doubt */
    bool ready;      /* in the ready list */
    bool idle;       /* in the idle list */
    bool waiting;    /* for its pace or name: until due, or an end of one in flight */
    bool unnamed;    /* its name did not resolve the last time */
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
    hf_host_list idle;       /* oldest first */
    const hf_config *config; /* limits */
    hf_heap *heap;           /* the shard's; hosts wait in it with kind HF_KIND_HOST */
    uint64_t random;         /* state of a xorshift64 generator: jitter */
    uint64_t queued;         /* requests in all queues */
    bool asks_names; /* plain requests go to their hosts directly, not by a proxy */
} hf_schedule;

/* Kinds of nodes in the shard's heap. */
enum { HF_KIND_REQUEST, HF_KIND_HOST };

/* config and heap stay the caller's and must outlive s. Returns 0 or HF_ENOMEM. */
int hf_schedule_init(hf_schedule *s, const hf_config *config, hf_heap *heap);

/* Frees the hosts. Requests still queued stay their owner's. */
void hf_schedule_free(hf_schedule *s);

/* Appends r to the queue of the host that it asks now; with again, for a retry or a
 * redirect, in front of all that are there for the first time; a redirect in front of
 * retries, too.
 * Returns 0 or HF_ENOMEM. */
int hf_schedule_push(hf_schedule *s, hf_request *r, bool again, int64_t now);

/* Takes the next request that may start; its host has one more in flight then.
 * With *refused its host's breaker is open: it is out of the backlog and must end as
 * `host_unavailable`. Returns NULL when none may start. */
hf_request *hf_schedule_pop(hf_schedule *s, int64_t now, bool *refused);

/* Whether r, in flight, may ask its host once more at once, after its request came to
 * `end`. Where it may, the next one has begun. */
bool hf_schedule_again(hf_schedule *s, hf_request *r, const hf_pace_end *end,
                       int64_t now);

/* Puts back what hf_schedule_pop gave, as if it had not been taken. */
void hf_schedule_unpop(hf_schedule *s, hf_request *r, int64_t now);

/* Takes a queued request out. */
void hf_schedule_remove(hf_schedule *s, hf_request *r, int64_t now);

/* Ends the flight of r, which came to `end`: its host may start another. */
void hf_schedule_landed(hf_schedule *s, hf_request *r, const hf_pace_end *end,
                        int64_t now);

/* A request that asks has an address: the others of its host may start. known: they
 * will find it as well, which libcurl sees to once all answers have come. */
void hf_schedule_named(hf_schedule *s, hf_request *r, bool known, int64_t now);

/* The time that a host waited for has come. */
void hf_schedule_due(hf_schedule *s, hf_host *h);

/* The host by its key, made when it is not there; NULL without memory. */
hf_host *hf_schedule_host(hf_schedule *s, const char *key, uint32_t n, int64_t now);

/* The same for a host of another shard, which has limits there only: whoever is queued
 * here has been let through. */
hf_host *hf_schedule_guest(hf_schedule *s, const char *key, uint32_t n, int64_t now);

/* The pace of a host was changed from outside: let it be asked again. */
void hf_schedule_touch(hf_schedule *s, hf_host *h);

/* Any queued request, or NULL: for emptying the backlog. */
hf_request *hf_schedule_any(hf_schedule *s);

/* The hash that shards and buckets go by (FNV-1a). */
uint32_t hf_host_hash(const char *key, size_t n);

#endif
