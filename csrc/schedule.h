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

#include "hosts.h"

typedef struct hf_schedule {
    hf_hosts hosts;
    hf_host_list ready;
    hf_heap *heap;   /* the shard's */
    uint64_t random; /* state of a xorshift64 generator: jitter */
    uint64_t queued; /* requests in all queues */
    bool asks_names; /* plain requests go to their hosts directly, not by a proxy */
} hf_schedule;

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

#endif
