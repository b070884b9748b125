/* A loop: one thread that drives libcurl for one shard.
 *
 * Each iteration: wait, serve sockets, run due deadlines and libcurl's timers, end what
 * is done, take the inbox, start what may start, tell the kernel what changed. The
 * clock is read at least every 64 events or 1 ms of work, and due deadlines go first.
 */
#ifndef HF_LOOP_H
#define HF_LOOP_H

#include "heart.h"
#include "poller.h"
#include "shard.h"
#include "transfer.h"

typedef struct hf_loop {
    struct hf_loop *next; /* in the engine's list of those left behind */
    hf_shard *shard;
    const hf_settings *settings;
    const hf_curl *curl;
    pthread_t thread;
    bool started;
    hf_heart heart;
    _Atomic(int64_t)
        earliest_hard;   /* us: first hard limit in flight; HF_NEVER = none */
    hf_atomic_u32 quit;  /* 1: end at the next iteration */
    hf_atomic_u32 ended; /* 1: the thread touches nothing of the loop now */
    hf_poller poller;
    hf_heap timers;          /* libcurl's, one per multi */
    int32_t n_lanes;         /* multis of all identities */
    hf_identity *identities; /* latest used first */
    hf_identity *oldest;
    hf_identity *plain; /* that of requests without anything special */
    int32_t n_identities;
    hf_lane *touched; /* multis with possibly finished transfers */
    hf_decoders decoders;
    int64_t now;     /* us, the clock as last read */
    int64_t woke;    /* us: when it last found that it had been away; 0 = never */
    int32_t budget;  /* events until the next look at the clock */
    int32_t freed;   /* transfers that ended since the last starts */
    uint64_t steps;  /* callbacks that told of a request's progress */
    int8_t refusing; /* HTTPS records: 1 = a query was refused and it did no harm, -1 =
                        it was the address's, so none is any more; 0 = not known */
    bool lost;       /* the shard was taken away */
} hf_loop;

/* Makes a loop for the shard; no thread yet. Returns 0, HF_ESYS, HF_ENOMEM. */
int hf_loop_new(hf_shard *s, hf_loop **out, hf_errbuf err);

/* Starts its thread, with all signals blocked. Returns 0 or HF_ESYS. */
int hf_loop_start(hf_loop *l, hf_errbuf err);

/* Asks the thread to end. */
void hf_loop_quit(hf_loop *l);

/* Joins and frees. The thread must have ended or be about to. */
void hf_loop_free(hf_loop *l);

/* Marks a multi for draining. */
void hf_loop_touch(hf_loop *l, hf_lane *lane);

/* Back from a call into libcurl that hf_heart_enter announced: reads the clock. Returns
 * false when the shard was taken away meanwhile: l->lost. */
bool hf_loop_come_back(hf_loop *l);

#endif
