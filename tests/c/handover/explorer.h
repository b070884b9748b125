/* What the files of the explorer of states share: threads.c runs threads, snapshot.c
 * takes and compares states, search.c visits them.
 */
#ifndef HF_EXPLORER_H
#define HF_EXPLORER_H

#include "states.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* The program's malloc belongs to the threads: kernel.c. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
#define malloc __real_malloc
#define calloc __real_calloc
#define realloc __real_realloc
#define free __real_free

enum {
    STACK = 96 * 1024,
    RED = 256,   /* bytes below a frame that may be in use */
    BLOCK = 256, /* bytes that are compared with the first state at once */
    AREAS = ST_THREADS + 1,
    AREA_MOST = 1 << 20, /* bytes */
    OBJECTS = 1024,      /* a power of two */
    REHEARSALS = 200,
    LONGEST = 4000, /* steps of a trace */
    TRACE = 160 * LONGEST
};

/* A thread. Its memory is part of the state. */
typedef struct thread {
    ucontext_t context;
    jmp_buf jump;
    void *(*run)(void *);
    void *arg;
    const char *name;
    uint8_t *sp; /* what lies below is dead */
    bool used, started, ended, by_time;
    st_wait wait;
    const volatile void *at;
    int object;
    const char *what, *func; /* its next step */
    int line;
    uint64_t stack[2]; /* a hash of it */
} thread;

extern thread threads[ST_THREADS];
extern int ticks_left; /* waits that may still end by time; part of the state */

/* What is known of an object that steps are about. */
typedef struct thing {
    const volatile void *at;
    uint8_t threads; /* that use it, as bits */
    bool written, shared;
} thing;

/* A piece of memory that is part of the state. */
typedef struct area {
    uint8_t *start, *end;
} area;

/* How a state was come to. */
typedef struct way {
    uint32_t from;
    uint8_t thread;
    bool by_time;
    const char *what, *func;
    int line;
} way;

/* A state with ways not tried yet. */
typedef struct pending {
    uint8_t *image;
    uint32_t id;
    uint8_t rest; /* threads, as bits */
} pending;

typedef struct edge {
    uint32_t from, to;
} edge;

/* The explorer's own memory, which no snapshot covers. */
typedef struct explorer {
    const st_case *current;
    bool failed, again, setting_up;
    thing things[OBJECTS];
    int now;
    jmp_buf scheduler;
    uint8_t *stacks;     /* of all threads */
    uint8_t *before;     /* static data when st_explore was called */
    uint8_t *first;      /* copy of the areas at the first state */
    uint64_t (*seen)[3]; /* hash, hash, state's number + 1; open addressing */
    size_t seen_size;
    way *ways;
    size_t n_ways, cap_ways;
    edge *edges;
    size_t n_edges, cap_edges;
    pending *todo;
    size_t n_todo, cap_todo;
    uint8_t *ends; /* of each state: 1 = an end */
    uint8_t *image;
    size_t cap_image;
    uint32_t at_state;
    st_result result;
    uint32_t path[LONGEST];
    char trace[TRACE];
    char signal_stack[64 * 1024];
} explorer;

extern explorer *ex; /* mmap'ed */

/* ---- threads.c ---- */

/* Whether the thread's next step need not wait. */
bool st_ready(const thread *t);

/* The threads that may take a step, as bits. */
uint8_t st_enabled(void);

/* Lets a thread take its step. */
void st_go(int number);

/* Makes the explorer's own memory. */
void st_make(void);

/* ---- snapshot.c ---- */

/* Static data as they are now: kept as those in front of a case, brought back. */
void st_keep_before(void);
void st_restore_before(void);

/* Makes the present state the first one, with which all others are compared. */
void st_keep_first(void);

/* Writes an image of the present state to ex->image; returns its bytes. */
size_t st_take_image(void);
void st_restore(const uint8_t *image);

/* A thread has run: its stack has another hash. */
void st_hash_stack(thread *t, int number);

/* 128 bits that stand for the present state. */
void st_hash(uint64_t h[2]);

#endif
