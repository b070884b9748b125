/* An exhaustive explorer of small programs over C11 atomics.
 *
 * Built with HF_EXPLORE, csrc/atomics.h takes its operations from here. Threads are
 * user-level contexts; each atomic operation and each call on an eventfd is a point at
 * which any thread may go on, and a load may read each store that C11 lets it read: one
 * that neither coherence, happens-before nor the order of seq_cst operations (7.17.3,
 * by the letter, which is weaker than C++20) rules out. All such runs are tried, depth
 * first, each from the start; sleep sets leave out those that differ only in the order
 * of independent steps. Plain copies (hf_put, hf_get) are checked for data races in
 * each run, blocks for being freed once, and threads for ending.
 *
 * What it does not show: a load never reads a store that is executed after it (load
 * buffering), and modification order is the order of execution. Neither can matter
 * where every location has one writer or is changed by exchange, as in ring.c. An
 * eventfd passes on a count and no memory order: less than the kernel gives.
 */
#ifndef HF_EXPLORE_H
#define HF_EXPLORE_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EX_THREADS = 4 }; /* thread 0 sets up and checks, the rest run */

typedef struct ex_atomic {
    int id; /* of its location; 0: never initialised */
} ex_atomic;

typedef ex_atomic hf_atomic_u64;
typedef ex_atomic hf_atomic_u32;

#define hf_init(p, v) ex_init((p), (v), #p)
#define hf_load(p, order) ex_load((p), (order), __func__, __LINE__)
#define hf_store(p, v, order) ex_store((p), (v), (order), __func__, __LINE__)
#define hf_xchg(p, v, order) ex_xchg((p), (v), (order), __func__, __LINE__)
#define hf_put(shared, from, n) ex_put((shared), (from), (n), __func__, __LINE__)
#define hf_get(to, shared, n) ex_get((to), (shared), (n), __func__, __LINE__)

#define malloc(n) ex_malloc(n)
#define free(p) ex_free(p)
#define eventfd(count, flags) ex_eventfd((count), (flags))
#define close(fd) ex_close(fd)
#define write(fd, p, n) ex_write((fd), (p), (n))
#define read(fd, p, n) ex_read((fd), (p), (n))
#define ppoll(p, n, time, mask) ex_ppoll((p), (n), (time), (mask))

void ex_init(ex_atomic *a, uint64_t value, const char *name);
uint64_t ex_load(const ex_atomic *a, memory_order order, const char *func, int line);
void ex_store(ex_atomic *a, uint64_t value, memory_order order, const char *func,
              int line);
uint64_t ex_xchg(ex_atomic *a, uint64_t value, memory_order order, const char *func,
                 int line);
void ex_put(void *shared, const void *from, size_t n, const char *func, int line);
void ex_get(void *to, const void *shared, size_t n, const char *func, int line);

void *ex_malloc(size_t n);
void ex_free(void *p);
int ex_eventfd(unsigned count, int flags);
int ex_close(int fd);
ssize_t ex_write(int fd, const void *p, size_t n);
ssize_t ex_read(int fd, void *p, size_t n);
int ex_ppoll(struct pollfd *p, nfds_t n, const struct timespec *time, const void *mask);

typedef struct ex_case {
    const char *name;
    void (*setup)(void);
    void (*threads[EX_THREADS - 1])(void);
    void (*check)(void); /* after all threads have ended */
    int timeouts;        /* times that a poll with a time limit may end by it */
} ex_case;

typedef struct ex_result {
    long runs;   /* to their end */
    long pruned; /* left as equivalent to another */
    int failed;  /* 1: why and trace tell */
    int cut;     /* 1: failed for the limit only */
    char why[160];
    char *trace; /* steps of the failed run; valid until the next ex_explore */
} ex_result;

/* Tries all runs of c, up to the first that fails. More than `limit` runs is a failure,
 * as then nothing is proved.
 */
ex_result ex_explore(const ex_case *c, long limit);

/* Ends the run as failed. Does not return when called by a thread under exploration. */
void ex_fail(const char *why);

#define EX_CHECK(cond)                   \
    do {                                 \
        if (!(cond))                     \
            ex_fail("not true: " #cond); \
    } while (0)

/* The places with an atomic operation that any run so far has passed. */
typedef struct ex_site {
    const char *func;
    int line;
    char kind;          /* 'L'oad, 'S'tore, 'X'change */
    memory_order order; /* as written */
    memory_order used;  /* as explored: set it to weaken the place */
} ex_site;

ex_site *ex_sites(int *count);
const char *ex_order_name(memory_order order);

#endif
