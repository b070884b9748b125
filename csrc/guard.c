#include "guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "err.h"

/* Slots are found by the low bits of their number. */
#define SLOT_BITS 16
#define SLOT_MASK ((1 << SLOT_BITS) - 1)

/* In this order: late; stuck, waiting for Python to bring the stacks; being told; told.
 */
typedef enum { WATCHED, ASKED, DUMPING, TOLD } hf_guard_stage;

/* What a thread that tells was given. */
typedef struct hf_guard_news hf_guard_news;

typedef struct hf_guard_slot {
    int64_t id;    /* 0 = free */
    int64_t armed; /* monotonic us */
    int64_t asked; /* us from armed to the first due */
    int64_t due;   /* monotonic us: late from here on */
    int64_t grace; /* us */
    int64_t kick;  /* monotonic us of the next kick */
    int64_t limit; /* monotonic us: ASKED or DUMPING ends here at the latest */
    pthread_t thread;
    pid_t
        tid; /* kicked by this: a pthread_t must not be used once its thread is gone */
    int kicks; /* since due */
    bool exits;
    hf_guard_stage stage;
} hf_guard_slot;

struct hf_guard_news {
    hf_guard_slot slot; /* a copy */
    size_t len;         /* bytes of text; 0: raise the dump signal */
    char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hf_guard_slot *slots;
static unsigned slot_count; /* slots allocated */
static int64_t serial;      /* of the last number given out */
static int64_t wake_at;     /* monotonic us at which the thread looks again */
static bool running;        /* the thread was started in this process */
static bool stopped;
static int kick_signal;
static int dump_signal;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void init_cond(void) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void after_fork_child(void) {
    for (unsigned i = 0; i < slot_count; i++)
        slots[i].id = 0;
    running = false;
    init_cond(); /* the old one may count the thread that isn't here as a waiter */
    pthread_mutex_unlock(&lock);
}

static void init_once(void) {
    init_cond();
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void kicked(int signum) {
    (void)signum; /* having a handler is what makes a system call return */
}

static bool handled(int signum) {
    struct sigaction now;
    return sigaction(signum, NULL, &now) == 0 && now.sa_handler != SIG_DFL;
}

int hf_guard_free_signal(int below) {
    if (below <= 0)
        below = SIGRTMAX + 1;
    for (int s = below - 1; s > SIGRTMIN; s--) {
        if (!handled(s))
            return s;
    }
    return 0;
}

int hf_guard_signals(int kick, int dump) {
    if (kick < 1 || kick > SIGRTMAX || dump < 0 || dump > SIGRTMAX || kick == dump)
        return HF_EINVAL;
    if (!handled(kick)) {
        /* No SA_RESTART: ending the call is the point. */
        struct sigaction act = {.sa_handler = kicked};
        sigemptyset(&act.sa_mask);
        if (sigaction(kick, &act, NULL) != 0)
            return HF_ESYS;
    }
    pthread_mutex_lock(&lock);
    kick_signal = kick;
    dump_signal = dump;
    pthread_mutex_unlock(&lock);
    return HF_OK;
}

static hf_guard_slot *find(int64_t id) {
    unsigned i = (unsigned)(id & SLOT_MASK);
    return id > 0 && i < slot_count && slots[i].id == id ? &slots[i] : NULL;
}

static void write_all(const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nobody to tell: the rest still holds */
        text += n;
        len -= (size_t)n;
    }
}

/* Raised in this thread and not in the late one, which may block signals. */
static void raise_dump(void) {
    sigset_t set;
    if (dump_signal <= 0 || !handled(dump_signal))
        return;
    sigemptyset(&set);
    sigaddset(&set, dump_signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_kill(pthread_self(), dump_signal);
}

/* Tells on stderr who is stuck, and where. A thread of its own, as stderr may block for
 * ever. Owns arg. */
static void *dump(void *arg) {
    hf_guard_news *news = arg;
    const hf_guard_slot *s = &news->slot;
    char text[256];
    int n =
        snprintf(text, sizeof text,
                 "hardfetch.deadline: thread %d (0x%016lx) has not run Python for "
                 "%.3f s past its deadline of %.3f s%s; all stacks follow\n",
                 (int)s->tid, (unsigned long)s->thread,
                 (double)(hf_now() - s->armed - s->asked) / 1e6, (double)s->asked / 1e6,
                 s->exits ? ", so this process ends with code 70" : "");
    if (n > 0)
        write_all(text, (size_t)n);
    if (news->len > 0)
        write_all(news->text, news->len);
    else
        raise_dump();
    pthread_mutex_lock(&lock);
    hf_guard_slot *mine = find(s->id);
    if (mine != NULL && mine->stage == DUMPING)
        mine->limit = 0;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    free(news);
    return NULL;
}

/* Starts a detached thread with all signals blocked: signals are for Python's threads.
 */
static int start_thread(void *(*run)(void *), void *arg) {
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return HF_ESYS;
    pthread_detach(thread);
    return HF_OK;
}

/* Starts to tell. Returns HF_ENOMEM where it can't be told. */
static int start_dump(hf_guard_slot *s, int64_t now, const char *text, size_t len) {
    hf_guard_news *news = malloc(sizeof *news + len);
    int rc = HF_ENOMEM;
    s->stage = DUMPING;
    s->limit = now + HF_GUARD_DUMP_LIMIT;
    if (news != NULL) {
        news->slot = *s;
        news->len = len;
        if (len > 0)
            memcpy(news->text, text, len);
        rc = start_thread(dump, news);
    }
    if (rc != HF_OK) {
        free(news);
        s->limit = 0;
        rc = HF_ENOMEM;
    }
    return rc;
}

static void kick_thread(hf_guard_slot *s, int64_t now) {
    /* A thread that ended without disarming has no one left to interrupt. */
    if (handled(kick_signal) &&
        syscall(SYS_tgkill, getpid(), s->tid, kick_signal) != 0) {
        s->id = 0;
        return;
    }
    s->kicks++;
    s->kick = now + (s->kicks < 10 ? HF_GUARD_KICK_EVERY : HF_GUARD_KICK_LATER);
}

/* Does what is due for one slot. Returns when to look at it again, in monotonic us. */
static int64_t run_slot(hf_guard_slot *s, int64_t now) {
    if (now >= s->kick && kick_signal > 0)
        kick_thread(s, now);
    if (s->id == 0)
        return INT64_MAX;
    int64_t stuck = s->due + s->grace;
    if (s->stage == WATCHED && now >= stuck) {
        s->stage = ASKED;
        s->limit = stuck + (s->exits ? HF_GUARD_TELL_WAIT_EXITS : HF_GUARD_TELL_WAIT);
    }
    if (s->stage == ASKED && now >= s->limit)
        start_dump(s, now, NULL, 0);
    if (s->stage == DUMPING && now >= s->limit) {
        if (s->exits)
            _exit(HF_GUARD_EXIT);
        s->stage = TOLD;
    }
    int64_t next = s->stage == WATCHED ? stuck : s->stage == TOLD ? s->kick : s->limit;
    return next < s->kick ? next : s->kick;
}

static void *watch(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        int64_t now = hf_now();
        int64_t next = INT64_MAX;
        for (unsigned i = 0; i < slot_count; i++) {
            if (slots[i].id == 0)
                continue;
            int64_t at = run_slot(&slots[i], now);
            if (at < next)
                next = at;
        }
        wake_at = next;
        if (next == INT64_MAX) {
            pthread_cond_wait(&changed, &lock);
        } else {
            struct timespec ts = {.tv_sec = (time_t)(next / 1000000),
                                  .tv_nsec = (long)(next % 1000000) * 1000};
            pthread_cond_timedwait(&changed, &lock, &ts);
        }
    }
    return NULL;
}

/* A free slot's index, or HF_ENOMEM. */
static int take_slot(void) {
    for (unsigned i = 0; i < slot_count; i++) {
        if (slots[i].id == 0)
            return (int)i;
    }
    unsigned more = slot_count == 0 ? 16 : slot_count * 2;
    if (more > SLOT_MASK)
        return HF_ENOMEM;
    hf_guard_slot *grown = realloc(slots, more * sizeof *grown);
    if (grown == NULL)
        return HF_ENOMEM;
    memset(grown + slot_count, 0, (more - slot_count) * sizeof *grown);
    unsigned i = slot_count;
    slots = grown;
    slot_count = more;
    return (int)i;
}

/* Wakes the thread only when it would sleep past `at`. */
static void look_at(int64_t at) {
    if (at < wake_at)
        pthread_cond_signal(&changed);
}

int64_t hf_guard_arm(int64_t due, int64_t grace, int exits) {
    pthread_once(&once, init_once);
    pthread_mutex_lock(&lock);
    int64_t id = HF_ESYS;
    if (!running && !stopped) {
        running = start_thread(watch, NULL) == HF_OK;
        wake_at = 0;
    }
    if (!running || stopped)
        goto out;
    int i = take_slot();
    id = i;
    if (i < 0)
        goto out;
    int64_t now = hf_now();
    id = (++serial << SLOT_BITS) | i;
    slots[i] = (hf_guard_slot){.id = id,
                               .armed = now,
                               .asked = due,
                               .due = now + due,
                               .grace = grace,
                               .kick = now + due + HF_GUARD_KICK_AFTER,
                               .thread = pthread_self(),
                               .tid = (pid_t)syscall(SYS_gettid),
                               .exits = exits != 0,
                               .stage = WATCHED};
    look_at(now + due);
out:
    pthread_mutex_unlock(&lock);
    return id;
}

int hf_guard_ack(int64_t id, int64_t due) {
    pthread_mutex_lock(&lock);
    hf_guard_slot *s = find(id);
    if (s != NULL) {
        s->due = hf_now() + due;
        s->kick = s->due + HF_GUARD_KICK_AFTER;
        s->kicks = 0;
        s->stage = WATCHED;
        look_at(s->due);
    }
    pthread_mutex_unlock(&lock);
    return s != NULL ? HF_OK : HF_EINVAL;
}

int hf_guard_tell(int64_t id, const char *text, size_t len) {
    pthread_mutex_lock(&lock);
    hf_guard_slot *s = find(id);
    int64_t now = hf_now();
    int rc = 0;
    if (s != NULL && s->stage <= ASKED && len > 0 &&
        now >= s->due + s->grace - HF_GUARD_TELL_EARLY) {
        rc = start_dump(s, now, text, len) == HF_OK ? 1 : HF_ENOMEM;
        look_at(s->limit);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void hf_guard_disarm(int64_t id) {
    pthread_mutex_lock(&lock);
    hf_guard_slot *s = find(id);
    if (s != NULL)
        s->id = 0;
    pthread_mutex_unlock(&lock);
}

void hf_guard_stop(void) {
    pthread_mutex_lock(&lock);
    stopped = true;
    for (unsigned i = 0; i < slot_count; i++)
        slots[i].id = 0;
    pthread_mutex_unlock(&lock);
}
