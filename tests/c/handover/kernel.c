/* The kernel and the C library, as far as the core uses them: memory, descriptors,
 * locks, threads and the clock, all of it part of the state. The linker puts these
 * functions in the real ones' place (--wrap).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "states.h"

void *__real_calloc(size_t n, size_t size);
void __real_free(void *p);
ssize_t __real_read(int fd, void *p, size_t n);
ssize_t __real_write(int fd, const void *p, size_t n);
int __real_close(int fd);

/* ---- Its state. ---- */

enum { FIRST_FD = 1000, FDS = 32, WATCHED = 4 };

typedef enum kind { NONE, EVENT, EPOLL, TIMER } kind;

typedef struct file {
    kind kind;
    int tokens; /* of an eventfd: 1 = there are some */
    int64_t at; /* of a timer: us, 0 = off */
    int n;      /* of an epoll */
    struct {
        int fd;
        uint64_t data;
    } watched[WATCHED];
} file;

static file files[FDS];
static int64_t now_us = 1000000;

/* ---- Memory: each thread's own, so that no address depends on what another did.
 * Nothing is given out twice. ---- */

enum { FEW = 8, ARENA = 1 << 20, LARGE = 1 << 16, POISON = 0xdd, GRAIN = 16 };

typedef struct block {
    uint64_t size;
    uint64_t freed;
} block;

static uint8_t *arenas;          /* of all threads */
static size_t given[ST_THREADS]; /* bytes */

static void *large[FEW];
static int n_large;

void st_kernel_reset(void) {
    if (arenas == NULL)
        arenas = mmap(NULL, (size_t)ST_THREADS * ARENA, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memset(given, 0, sizeof given);
    memset(files, 0, sizeof files);
    now_us = 1000000;
    while (n_large > 0)
        __real_free(large[--n_large]);
}

void st_memory(int number, uint8_t **start, uint8_t **end) {
    *start = arenas + (size_t)number * ARENA;
    *end = *start + given[number];
}

static bool ours(const volatile void *p) {
    const volatile uint8_t *b = p;
    return arenas != NULL && b >= arenas && b < arenas + (size_t)ST_THREADS * ARENA;
}

bool st_freed(const volatile void *p) {
    uint32_t word;
    if (!ours(p))
        return false;
    memcpy(&word, (const void *)(uintptr_t)p, sizeof word);
    return word == POISON * 0x01010101u;
}

void st_memory_check(bool all) {
    for (int i = 0; i < ST_THREADS; i++) {
        size_t at = 0;
        while (at < given[i]) {
            const block *b = (const void *)(arenas + (size_t)i * ARENA + at);
            const uint8_t *p = (const uint8_t *)(b + 1);
            for (size_t k = 0; b->freed && k < b->size; k++)
                if (p[k] != POISON) {
                    st_fail("what was freed was written to");
                    return;
                }
            if (all && !b->freed) {
                st_fail("memory was never freed");
                return;
            }
            at += sizeof *b + ((size_t)b->size + GRAIN - 1) / GRAIN * GRAIN;
        }
    }
}

/* What is large is no part of the state: the event rings, which no case fills. */
static void *give_large(size_t n) {
    if (n_large == FEW) {
        st_fail("too many large blocks");
        return NULL;
    }
    large[n_large] = __real_calloc(1, n);
    return large[n_large++];
}

static void *give(size_t n) {
    size_t whole = sizeof(block) + (n + GRAIN - 1) / GRAIN * GRAIN;
    size_t *used = &given[st_self()];
    if (arenas == NULL || n >= LARGE)
        return give_large(n);
    if (*used + whole > ARENA) {
        st_fail("too much memory");
        return NULL;
    }
    block *b = (void *)(arenas + (size_t)st_self() * ARENA + *used);
    memset(b, 0, whole); /* so that nothing earlier can be read in it */
    b->size = n;
    *used += whole;
    return b + 1;
}

void *__wrap_malloc(size_t n) {
    return give(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    return give(n * size);
}
void __wrap_free(void *p) {
    if (p == NULL)
        return;
    if (!ours(p))
        return; /* a large one, freed with the case */
    block *b = (block *)p - 1;
    if (b->freed || b->size > ARENA)
        st_fail("freed twice");
    b->freed = 1;
    memset(p, POISON, b->size);
}
void st_memory_undo(void *p) {
    block *b = (block *)p - 1;
    uint8_t *start = arenas + (size_t)st_self() * ARENA;
    given[st_self()] = (size_t)((uint8_t *)b - start);
}
void *__wrap_realloc(void *p, size_t n) {
    void *to = give(n);
    if (p != NULL) {
        size_t old = ours(p) ? ((block *)p - 1)->size : n;
        memcpy(to, p, old < n ? old : n);
        __wrap_free(p);
    }
    return to;
}
char *__wrap_strndup(const char *s, size_t n) {
    size_t len = strnlen(s, n);
    char *p = give(len + 1);
    memcpy(p, s, len);
    return p;
}
char *__wrap_strdup(const char *s) {
    return __wrap_strndup(s, strlen(s));
}

/* ---- Descriptors. ---- */

int64_t st_clock(void) {
    return now_us;
}
void st_clock_move(int64_t us) {
    now_us += us;
}

static file *file_of(int fd) {
    if (fd < FIRST_FD || fd >= FIRST_FD + FDS || files[fd - FIRST_FD].kind == NONE) {
        st_fail("a descriptor is used that is not open");
        return &files[FDS - 1];
    }
    return &files[fd - FIRST_FD];
}

static int open_file(kind what) {
    for (int i = 0; i < FDS; i++)
        if (files[i].kind == NONE) {
            files[i] = (file){.kind = what};
            return FIRST_FD + i;
        }
    st_fail("too many descriptors");
    return -1;
}

bool st_readable(int fd) {
    const file *f = &files[fd - FIRST_FD];
    switch (f->kind) {
    case EVENT:
        return f->tokens != 0;
    case TIMER:
        return f->at != 0 && f->at <= now_us;
    case EPOLL:
        for (int i = 0; i < f->n; i++)
            if (st_readable(f->watched[i].fd))
                return true;
        return false;
    default:
        return false;
    }
}

int __wrap_eventfd(unsigned count, int flags) {
    (void)count, (void)flags;
    return open_file(EVENT);
}
int __wrap_epoll_create1(int flags) {
    (void)flags;
    return open_file(EPOLL);
}
int __wrap_timerfd_create(int clock, int flags) {
    (void)clock, (void)flags;
    return open_file(TIMER);
}
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *t,
                           struct itimerspec *old) {
    (void)flags, (void)old;
    file_of(fd)->at =
        (int64_t)t->it_value.tv_sec * 1000000 + t->it_value.tv_nsec / 1000;
    return 0;
}
int __wrap_close(int fd) {
    if (fd < FIRST_FD)
        return __real_close(fd);
    *file_of(fd) = (file){.kind = NONE};
    return 0;
}
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev) {
    file *f = file_of(epfd);
    if (op != EPOLL_CTL_ADD || f->n == WATCHED) {
        st_fail("an epoll that the cases do not need");
        return -1;
    }
    f->watched[f->n].fd = fd;
    f->watched[f->n++].data = ev->data.u64;
    return 0;
}
int __wrap_epoll_wait(int epfd, struct epoll_event *out, int most, int timeout) {
    int n = 0;
    for (int i = 0; i < file_of(epfd)->n; i++)
        st_use(file_of(file_of(epfd)->watched[i].fd));
    st_block(timeout == 0 ? ST_GO : ST_FD, NULL, epfd, false, "epoll_wait", __func__,
             timeout);
    const file *f = file_of(epfd);
    for (int i = 0; i < f->n && n < most; i++)
        if (st_readable(f->watched[i].fd))
            out[n++] = (struct epoll_event){EPOLLIN, {.u64 = f->watched[i].data}};
    return n;
}

/* No step of its own: each has one reader, and a write between its poll and its read
 * comes to the same as one before the poll. */
ssize_t __wrap_read(int fd, void *p, size_t n) {
    uint64_t one = 1;
    if (fd < FIRST_FD)
        return __real_read(fd, p, n);
    file *f = file_of(fd);
    if (!st_readable(fd)) {
        errno = EAGAIN;
        return -1;
    }
    f->tokens = 0;
    f->at = 0;
    memcpy(p, &one, sizeof one);
    return sizeof one;
}
ssize_t __wrap_write(int fd, const void *p, size_t n) {
    if (fd < FIRST_FD)
        return __real_write(fd, p, n);
    st_step(file_of(fd), "write to an eventfd", __func__, fd);
    file_of(fd)->tokens = 1;
    return (ssize_t)n;
}
int __wrap_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts,
                 const void *mask) {
    (void)n, (void)mask;
    bool by_time = ts != NULL;
    st_use(file_of(p->fd));
    if (!st_block(ST_FD, NULL, p->fd, by_time, "poll", __func__, p->fd))
        return 0;
    p->revents = POLLIN;
    return 1;
}

/* ---- Time, threads and locks. ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ts) {
    (void)id;
    *ts = (struct timespec){now_us / 1000000, now_us % 1000000 * 1000};
    return 0;
}
/* Somebody looks again and again for what another has to do: join_loop in engine.c,
 * which loses patience after two of these. */
int __wrap_usleep(useconds_t us) {
    (void)us;
    st_block(ST_GO, NULL, 0, false, "usleep", __func__, 0);
    st_clock_move(1000000);
    return 0;
}
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg) {
    (void)attr;
    int number = st_spawn("thread", run, arg);
    *t = (pthread_t)number;
    return 0;
}
int __wrap_pthread_join(pthread_t t, void **out) {
    (void)out;
    st_block(ST_THREAD, NULL, (int)t, false, "pthread_join", __func__, (int)t);
    return 0;
}
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
    int *held = (int *)(void *)m;
    st_step(m, "lock", __func__, 0);
    if (*held != 0)
        st_block(ST_LOCK, m, 0, false, "lock", __func__, 0);
    *held = 1;
    return 0;
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
    int *held = (int *)(void *)m;
    st_step(m, "trylock", __func__, 0);
    if (*held != 0)
        return EBUSY;
    *held = 1;
    return 0;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m) {
    *(int *)(void *)m = 0;
    return 0;
}
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    (void)how, (void)set, (void)old;
    return 0;
}
