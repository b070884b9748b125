/* What the two halves of the explorer share: its state. */
#ifndef HF_EXPLORE_STATE_H
#define HF_EXPLORE_STATE_H

#include "explore.h"

#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#undef malloc
#undef free

enum {
    LOCATIONS = 40,
    STORES = 64,  /* of one location in one run */
    READS = 2048, /* likewise; as many as steps */
    BLOCKS = 32,  /* allocated in one run */
    SITES = 64,
    STEPS = 2000, /* of one run; more is taken for endless */
    BYTES = 4096, /* slots of the table of plain bytes, a power of two */
    STACK = 64 * 1024,
    FIRST_FD = 1000
};

typedef struct clock_vector {
    uint32_t of[EX_THREADS];
} clock_vector;

typedef struct store {
    uint64_t value;
    int thread;
    uint32_t time; /* of thread */
    int step;      /* when it was executed */
    bool seq_cst;
    clock_vector at;       /* what happens before it, itself included */
    clock_vector released; /* what an acquire load of it learns */
} store;

typedef struct read_record {
    int thread, index;
    uint32_t time;
} read_record;

typedef struct location {
    const char *name;
    store stores[STORES];
    read_record reads[READS];
    int store_count, read_count;
    uint64_t tokens; /* an eventfd's count */
} location;

typedef struct byte_record {
    const uint8_t *address;
    uint32_t run;
    int writer;
    uint32_t written;
    uint32_t read[EX_THREADS];
} byte_record;

typedef struct thread {
    ucontext_t context;
    jmp_buf jump;
    bool started, ended, may_time_out;
    int stopped; /* step after which it came in front of its next one */
    int object;  /* of its next step */
    char kind;   /* of its next step: L S X, W(rite) or P(oll) an eventfd */
} thread;

/* A decision: which thread goes on, or which store a load reads. */
typedef struct node {
    bool is_read;
    uint8_t chosen, count;  /* of a read */
    uint8_t enabled, sleep; /* threads, as bits */
} node;

typedef struct step {
    int thread, line, back; /* back: stores newer than the one read */
    const char *func, *name;
    char kind;
    memory_order order;
    uint64_t value;
} step;

typedef struct explorer {
    const ex_case *current;
    location locations[LOCATIONS];
    int location_count;
    clock_vector clocks[EX_THREADS];
    thread threads[EX_THREADS];
    jmp_buf scheduler;
    ucontext_t scheduler_context;
    int now; /* thread that runs; 0 outside exploration */
    bool exploring;
    node nodes[2 * STEPS];
    int depth, known; /* decisions taken in this run; decided before it */
    uint8_t sleep;
    step steps[STEPS];
    int step_count;
    int timeouts_left;
    byte_record bytes[BYTES];
    uint32_t run;
    struct {
        uint8_t *p;
        size_t n;
        bool freed;
    } blocks[BLOCKS];
    int block_count;
    ex_site sites[SITES];
    int site_count;
    bool failed;
    char why[160];
    char stacks[EX_THREADS][STACK] __attribute__((aligned(64)));
} explorer;

extern explorer ex;

/* Stops in front of a step until the scheduler picks this thread. */
void ex_before_step(int object, char kind);

/* Decides for one of count ways; all are tried in the end. */
int ex_choose(int count);

static inline void ex_join(clock_vector *into, const clock_vector *from) {
    for (int i = 0; i < EX_THREADS; i++)
        if (from->of[i] > into->of[i])
            into->of[i] = from->of[i];
}

#endif
