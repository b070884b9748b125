/* A shard: some of the hosts, with all that belongs to them. It outlives its loop.
 *
 * Backlog, requests in flight, deadlines, byte ring and event ring stand here, so that
 * a new loop can take over when the old one is stuck inside libcurl. Exactly one thread
 * owns a shard at a time: its loop, or the watchdog that took it away. Other threads
 * use the inbox only. Invariant: each accepted request is in exactly one place (queue,
 * running list, judged, back-off heap, parked list) until its record is out; then it is
 * freed.
 */
#ifndef HF_SHARD_H
#define HF_SHARD_H

#include "exits.h"
#include "inbox.h"
#include "record.h"
#include "schedule.h"
#include "shortage.h"
#include "spares.h"

/* The feeder waits until the window has emptied to here. */
#define HF_LOW_WATER(window) ((uint64_t)(window) - ((uint64_t)(window) + 3) / 4)

/* What all shards share; any thread. */
typedef struct hf_shared {
    const hf_settings *settings;
    hf_wake output;            /* the consumer of records sleeps here */
    hf_wake policy;            /* the consumer of events */
    hf_wake room;              /* the feeder, while the window is full */
    hf_atomic_u64 outstanding; /* accepted and not yet answered */
    hf_atomic_u64 charged;     /* their bytes */
    hf_atomic_u64 in_flight;   /* transfers over all shards */
    hf_atomic_u32 starving; /* 1: some shard waits for a slot; pairs with in_flight */
    hf_atomic_u32 paused;   /* 1: nothing starts yet */
    hf_exits exits;
    struct hf_shard *shards;
    int32_t n_shards;
} hf_shared;

/* Counters of one shard: written by its owner, read by any thread. */
typedef struct hf_counts {
    hf_stat records, dropped, started, retries, redirects;
    hf_stat queued, in_flight, parked, policy; /* momentary */
    hf_stat by_class[6];
    hf_stat by_type[48];
    hf_stat bytes_wire, bytes_body, ring_full, shortages, breakers;
    hf_stat epoll_waits, epoll_ctls, timer_sets, socket_actions, connects;
    hf_stat deadlines_fired, overrun_max;
    hf_stat overrun[128];
} hf_counts;

typedef struct hf_shard {
    hf_shared *shared;
    const hf_settings *settings;
    int32_t number;
    hf_wake wake; /* the loop sleeps here, by epoll */
    hf_inbox inbox;
    hf_schedule schedule;
    hf_heap heap;         /* dues of requests: limits, back-off, job deadline */
    hf_heap hards;        /* hard limits of those running */
    hf_requests running;  /* has a transfer */
    hf_requests parked;   /* has its outcome, and waits for room in the ring */
    uint64_t parked_out;  /* bytes the consumer had taken when the first did not fit */
    hf_requests heavy;    /* has its outcome, and a body too large to encode at once */
    hf_requests unjudged; /* waits for room in the event ring */
    hf_requests orphans;  /* answered, but libcurl may still read their bodies */
    hf_held held;         /* all requests that have no record yet */
    hf_response *spare;   /* pool of responses */
    int32_t n_spare;
    hf_spares spares; /* memory of theirs, while it is spare */
    hf_ring ring;
    hf_slots events;
    hf_encoder encoder;
    hf_counts counts;
    uint64_t answered;        /* since the last hf_shard_publish */
    uint64_t answered_charge; /* their bytes */
    int64_t stop_at;          /* HF_NEVER, or when what is in flight is aborted */
    bool stopping;            /* admission has ended */
    int64_t exits_at;         /* us: when to look for an exit again; 0 = now */
    int64_t no_exit_since;    /* us, 0 = one was found at the last look */
    hf_shortage shortage;     /* of descriptors and ports */
} hf_shard;

int hf_shard_init(hf_shard *s, hf_shared *shared, int32_t number, hf_errbuf err);

/* Frees everything, requests included. No thread may use the shard any more. */
void hf_shard_free(hf_shard *s);

/* --- any thread --------------------------------------------------------------------
 */

/* The number of the shard that has a host. */
static inline uint32_t hf_shard_of(const hf_shared *sh, const char *key, size_t n) {
    /* The low bits of the hash choose the bucket within the shard. */
    return (hf_host_hash(key, n) >> 16) % (uint32_t)sh->n_shards;
}

/* Hands a list of requests over. Owns: the shard from now on. Blocks: for a mutex. */
void hf_shard_post(hf_shard *s, hf_requests *list);

/* Hand over verdicts, a cancellation, a stop. Return 0 or HF_ENOMEM. */
int hf_shard_post_verdicts(hf_shard *s, const hf_verdict *v, int n);
int hf_shard_post_cancel(hf_shard *s, uint64_t seq);
int hf_shard_post_order(hf_shard *s, const hf_order *order);
void hf_shard_post_stop(hf_shard *s, int64_t stop_at);

/* --- the owner ---------------------------------------------------------------------
 */

/* Takes what was posted: files requests, applies verdicts and stops. Cancelled requests
 * that run are marked and appended to nothing: the loop finds them by r->cancelled.
 * A request may have been accepted since the owner looked at the clock: *now is set
 * forward to that then, or its record would tell of times before it.
 * Returns true when some running request was cancelled. */
bool hf_shard_take_inbox(hf_shard *s, int64_t *now);

/* The next request to start, with a response attached and counted in flight; NULL when
 * none may start now. It is in the running list. */
hf_request *hf_shard_next(hf_shard *s, int64_t now);

/* Whether hf_shard_next could give one. With false, the shard is woken when a slot
 * comes free. Between hf_wake_prepare and the wait. */
bool hf_shard_may_start(hf_shard *s, int64_t now);

/* Whether the redirect that a running request was given leads to the host that it has
 * asked, which may be asked again at once: its hop has begun then. */
bool hf_shard_stays(hf_shard *s, hf_request *r, int64_t now);

/* Else: takes a running request from its host and lets it wait for its turn where the
 * redirect leads to. hf_shard_next gives it again, in the same attempt. */
void hf_shard_leave(hf_shard *s, hf_request *r, int64_t now);

/* Ends the attempt of a running request, whose outcome and response are set: it goes to
 * policy or gets its record. One that failed for want of descriptors or ports comes
 * back later, as if it had not begun. */
void hf_shard_finish(hf_shard *s, hf_request *r, int64_t now);

/* Ends a running request that a stop has cut off: `shutdown`, or no record at all. */
void hf_shard_abort(hf_shard *s, hf_request *r, int64_t now);

/* Ends a running request whose loop is stuck: `engine_stalled`, or, where a stop cuts
 * it off before its hard limit does, as hf_shard_abort. Thread: the watchdog that took
 * the shard. */
void hf_shard_lose(hf_shard *s, hf_request *r, bool stopped, int64_t now);

/* Reports a request that is in no list: an invalid one, a dropped one. */
void hf_shard_report(hf_shard *s, hf_request *r, int64_t now);

/* Ends the wait of a request whose time has come while it did not run: a back-off is
 * over, or the job's deadline has passed. */
void hf_shard_due(hf_shard *s, hf_request *r, int64_t now);

/* Writes out what was parked, as far as the ring has room and some MiB at a time. */
void hf_shard_unpark(hf_shard *s, int64_t now);

/* Whether hf_shard_unpark would have something to do. */
bool hf_shard_may_unpark(const hf_shard *s);

/* Wakes those who wait for what this iteration brought. */
void hf_shard_publish(hf_shard *s);

/* Counts a deadline that fired. */
void hf_shard_note_overrun(hf_shard *s, int64_t overrun);

/* True when nothing is held and nothing can come any more. */
bool hf_shard_idle(const hf_shard *s);

#endif
