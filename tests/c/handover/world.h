/* What stands around the engine in the explorer of states: a libcurl that answers at
 * once or fails, records of eight bytes, rings for one or two of them.
 */
#ifndef HF_WORLD_H
#define HF_WORLD_H

#include "engine.h"
#include "states.h"

enum { RECORD = 8, SEQS = 8 };

typedef struct world {
    hf_engine *e;
    hf_config cfg;
    uint64_t accepted;
    int got[SEQS];          /* records of each seq that the writer has read */
    int n_got, last;        /* how many; the latest */
    bool any_order;         /* of records */
    size_t ring;            /* bytes */
    bool by_ref;            /* odd ones travel by reference */
    const char *hangs;      /* the call that may take long; NULL: each */
    const int *stuck_until; /* it does until this is not 0; NULL: any time */
    int closed;             /* 1: the engine was freed, or left to its last loop */
    int hanging;            /* 1: a call does */
    int lost;               /* 1: the first loop has lost its shard */
    int lives;              /* fake libcurl's handles that are not freed */
} world;

extern world W;

/* Forgets the last case and makes an engine of W.cfg whose threads sleep. */
void world_open(void);

/* Settings for that: one loop, no limits, a ring for one record. */
void world_default(void);

/* Submits lines; a URL with "/no" in it fails, the others are answered. Returns 0 or
 * HF_E… */
int world_submit(const char *lines);

/* Reads records until the end, a failure, or `most` of them. Returns HF_E… or 0. */
int world_read(int most);

/* Whether a call hangs: only then does time pass. st_case.may_tick. */
bool world_hangs(void);

/* Waits for a thread to end. */
void world_join(int number);

/* Closes the engine, waits for the writer, checks that each request is accounted for,
 * frees the engine and, once all its threads have ended, what a stuck one has kept. */
void world_close(int writer);

/* Requests that were let go without a record, which the counters tell. */
uint64_t world_dropped(void);

/* st_case.settle and .alone for one engine. */
void world_settle(void);
bool world_alone(const volatile void *at);

#endif
