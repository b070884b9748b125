/* The engine: lifecycle, submission, counters. Owns shards, loops and threads.
 *
 * api.h is its contract; this header is for the modules beside it.
 */
#ifndef HF_ENGINE_H
#define HF_ENGINE_H

#include <sys/types.h>

#include "loop.h"
#include "output.h"
#include "watchdog.h"

struct hf_engine {
    hf_settings settings;
    hf_shared shared;
    hf_shard *shards; /* owned array */
    hf_loop **loops;  /* owned; the loop that drives shard i, maybe NULL at the end */
    hf_output output;
    hf_watchdog watchdog;
    pid_t pid;              /* of the process that made it */
    pthread_mutex_t submit; /* one submission at a time: seq order */
    hf_requests *batches;   /* one per shard, filled by a submission */
    uint64_t next_seq;
    uint8_t *skip; /* bitmap of seq that need no answer; owned */
    uint64_t skip_bits;
    hf_stat inputs;
    hf_stat skipped;
    hf_stat accepted;
    hf_atomic_u32 finished;           /* 1: no more input */
    hf_atomic_u32 stopped;            /* 1: a stop was asked */
    hf_atomic_u32 closed;             /* 1: its threads end, or have ended */
    pthread_mutex_t closing;          /* one hf_engine_close at a time */
    hf_atomic_u32 policy_interrupted; /* 1: hf_engine_events is to return */
    hf_atomic_u32 room_interrupted;   /* 1: hf_engine_wait_room is to return */
    hf_engine *left;                  /* next of those that could not be freed */
};

/* True in a child of the process that made it, where nothing of it may be touched. */
bool hf_engine_forked(const hf_engine *e);

/* Returns 0, HF_EFORK or HF_ECLOSED: whether waiting for anything makes sense. */
int hf_engine_open(hf_engine *e);

/* Returns 0, HF_EFORK or HF_ECLOSED with err set: whether anything may be posted. */
int hf_engine_usable(const hf_engine *e, hf_errbuf err);

/* True once for each hf_engine_interrupt. */
bool hf_engine_take_interrupt(hf_atomic_u32 *flag);

#endif
