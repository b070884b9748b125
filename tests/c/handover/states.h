/* An explorer of states: real code, all interleavings of its steps.
 *
 * Threads are user-level contexts. A step is an atomic operation, a lock, a call of the
 * kernel or a point inside the fake libcurl; between two steps any thread may go on.
 * The state of the program is its memory: what it has allocated, its static data and
 * the live part of its stacks. What only one thread touches, or nobody writes to, is no
 * step: which that is, is found out, and the search begun anew when it turns out to be
 * wrong. Each state that can be reached is visited once, which is
 * known by a hash of that memory (128 bits); snapshots bring earlier states back. So
 * the number of runs, which grows with the power of their length, does not matter, only
 * that of states.
 *
 * A case fails when a thread finds something wrong, touches what was freed, when it
 * stays blocked for ever, or when a state is reached from which no way leads to the
 * end, however long the threads run (a loop that spins in vain).
 *
 * What it does not show: effects of weaker memory orders, and time: a wait ends by time
 * only as often as the case allows, and the clock then moves.
 */
#ifndef HF_STATES_H
#define HF_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steps.h"

enum { ST_THREADS = 8 }; /* thread 0 sets up */

/* What a thread waits for in front of its step. */
typedef enum st_wait {
    ST_GO,     /* nothing */
    ST_FD,     /* `object` is readable: an eventfd or an epoll */
    ST_LOCK,   /* the mutex at `at` is free */
    ST_THREAD, /* thread `object` has ended */
    ST_GATE    /* *(int *)at is not 0 */
} st_wait;

typedef struct st_case {
    const char *name;
    void (*setup)(void);
    /* Resets what counts only and leads to nothing: states that differ in it alone are
     * the same. May be NULL. */
    void (*settle)(void);
    /* Whether nothing of the case depends on what stands at `at`: no step then. */
    bool (*alone)(const volatile void *at);
    void (*check)(void);          /* at each end */
    bool (*may_rest)(int number); /* at the end, blocked; NULL: none may */
    bool (*may_tick)(void);       /* whether one may end so now; NULL: always */
    int ticks;                    /* waits that may end by time */
} st_case;

typedef struct st_result {
    long states, steps, ends;
    int failed;
    char why[200];
    char *trace; /* of the way to the failure; valid until the next exploration */
} st_result;

/* Visits all states of c, up to the first failure. More than `most` is a failure. */
st_result st_explore(const st_case *c, long most);

/* Makes a thread; it begins with its first step. Returns its number. */
int st_spawn(const char *name, void *(*run)(void *), void *arg);

/* Lets the threads that there are come to their first sleep. For set-up: how they begin
 * is no part of a case. */
void st_run_to_sleep(void);

/* The thread that runs; 0 during set-up and checks. */
int st_self(void);
void *st_arg(int number);

/* A step that may block. `by_time`: it may also end by time, if the case has ticks
 * left. Returns false when it ended so. */
bool st_block(st_wait wait, const volatile void *at, int object, bool by_time,
              const char *what, const char *func, int line);

/* This thread waits for what stands at `at`: whoever writes to it takes a step. */
void st_use(const volatile void *at);

/* Ends the exploration as failed. Does not return to a thread. */
void st_fail(const char *why);

#define ST_CHECK(cond)                   \
    do {                                 \
        if (!(cond))                     \
            st_fail("not true: " #cond); \
    } while (0)

/* ---- Of the kernel (kernel.c). Its memory is part of the state. ---- */

/* Ready to be read. */
bool st_readable(int fd);

/* Of the case. */
int st_ticks(void);

/* us by which a tick moves the clock, and the clock. */
enum { ST_TICK = 300000 };
int64_t st_clock(void);
void st_clock_move(int64_t us);

/* Memory of thread `number`: [*start, *end) has been given out. */
void st_memory(int number, uint8_t **start, uint8_t **end);
void st_kernel_reset(void);

/* Takes back what this thread has allocated last, as if it had not been. */
void st_memory_undo(void *p);

/* Whether p stands in a block that was freed. */
bool st_freed(const volatile void *p);

/* Fails when a freed block was written to, or, with `all`, one was never freed. */
void st_memory_check(bool all);

#endif
