/* Threads of the explorer of states: contexts and steps. */
#include "explorer.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

explorer *ex;
thread threads[ST_THREADS];
int ticks_left;

int st_self(void) {
    return ex == NULL ? 0 : ex->now;
}

void *st_arg(int number) {
    return threads[number].arg;
}

__attribute__((noinline)) static void enter(thread *t) {
    if (_setjmp(ex->scheduler))
        return;
    if (t->started)
        _longjmp(t->jump, 1);
    t->started = true;
    setcontext(&t->context);
}

/* Clears what earlier calls have left below the caller's frame. */
__attribute__((noinline)) static void wipe(void) {
    volatile uint8_t dead[2 * RED];
    for (size_t i = 0; i < sizeof dead; i++)
        dead[i] = 0;
}

__attribute__((noinline)) static void leave(thread *t) {
    wipe();
    t->sp = (uint8_t *)__builtin_frame_address(0) - RED;
    if (!_setjmp(t->jump))
        _longjmp(ex->scheduler, 1);
}

void st_fail(const char *why) {
    if (!ex->failed)
        snprintf(ex->result.why, sizeof ex->result.why, "%s", why);
    ex->failed = true;
    if (ex->now != 0)
        _longjmp(ex->scheduler, 1);
}

static void thread_main(void) {
    thread *t = &threads[ex->now];
    t->run(t->arg);
    *t = (thread){.arg = t->arg, .name = t->name, .used = true, .ended = true};
    leave(t);
}

int st_spawn(const char *name, void *(*run)(void *), void *arg) {
    int number = 1;
    while (number < ST_THREADS && threads[number].used)
        number++;
    if (number == ST_THREADS) {
        st_fail("too many threads");
        return 0;
    }
    thread *t = &threads[number];
    uint8_t *stack = ex->stacks + (size_t)number * STACK;
    *t = (thread){.run = run, .arg = arg, .name = name, .used = true, .what = "starts"};
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stack;
    t->context.uc_stack.ss_size = STACK;
    t->context.uc_link = NULL;
    makecontext(&t->context, thread_main, 0);
    t->sp = stack + STACK - 1024; /* what makecontext has put there */
    return number;
}

bool st_block(st_wait wait, const volatile void *at, int object, bool by_time,
              const char *what, const char *func, int line) {
    if (ex == NULL || ex->now == 0)
        return true;
    thread *t = &threads[ex->now];
    t->wait = wait;
    t->at = at;
    t->object = object;
    t->by_time = by_time;
    t->what = what;
    t->func = func;
    t->line = line;
    leave(t);
    if (at != NULL && st_freed(at))
        st_fail("what was freed is touched");
    bool by_itself = !t->by_time;
    t->wait = ST_GO;
    t->by_time = false;
    return by_itself;
}

/* Notes the access. When an object turns out to be shared that had been taken for one
 * thread's, what was left out so far has to be tried as well. */
static bool shared(const volatile void *at, bool writes) {
    size_t i = (uintptr_t)at / 4 * 2654435761u % OBJECTS;
    while (ex->things[i].at != NULL && ex->things[i].at != at)
        i = (i + 1) % OBJECTS;
    thing *o = &ex->things[i];
    o->at = at;
    if (ex->setting_up)
        return false;
    o->threads |= (uint8_t)(1 << ex->now);
    o->written |= writes;
    if (!o->shared && o->written && (o->threads & (o->threads - 1)) != 0) {
        o->shared = ex->again = true;
        st_fail("begun anew");
    }
    return o->shared;
}

void st_step(const volatile void *at, const char *what, const char *func, int line) {
    if (ex == NULL || ex->now == 0)
        return;
    if (st_freed(at))
        st_fail("what was freed is touched");
    if ((ex->current->alone == NULL || !ex->current->alone(at)) &&
        shared(at, strncmp(what, "load", 4) != 0))
        st_block(ST_GO, at, 0, false, what, func, line);
}

void st_use(const volatile void *at) {
    if (ex != NULL && ex->now != 0)
        shared(at, false);
}

bool st_ready(const thread *t) {
    switch (t->wait) {
    case ST_FD:
        return st_readable(t->object);
    case ST_LOCK:
        return *(const volatile int *)t->at == 0;
    case ST_THREAD:
        return threads[t->object].ended || !threads[t->object].used;
    case ST_GATE:
        return *(const volatile int *)t->at != 0;
    default:
        return true;
    }
}

uint8_t st_enabled(void) {
    uint8_t mask = 0;
    bool ticks =
        ticks_left > 0 && (ex->current->may_tick == NULL || ex->current->may_tick());
    for (int i = 1; i < ST_THREADS; i++) {
        const thread *t = &threads[i];
        if (t->used && !t->ended && (st_ready(t) || (t->by_time && ticks)))
            mask |= (uint8_t)(1 << i);
    }
    return mask;
}

/* Lets a thread take its step. */
void st_go(int number) {
    thread *t = &threads[number];
    if (t->by_time && !st_ready(t)) {
        ticks_left--;
        st_clock_move(ST_TICK);
    } else {
        t->by_time = false;
    }
    ex->now = number;
    enter(t);
    ex->now = 0;
    st_hash_stack(t, number);
    if (ex->current->settle != NULL && !ex->failed)
        ex->current->settle();
}

void st_run_to_sleep(void) {
    for (int i = 1; i < ST_THREADS; i++)
        while (threads[i].used && !threads[i].ended && !ex->failed &&
               st_ready(&threads[i]))
            st_go(i);
}

/* ---- The explorer. ---- */

int st_ticks(void) {
    return ex->current->ticks;
}

/* A wild pointer, most likely one out of a freed block. */
static void on_crash(int number) {
    if (ex->now == 0)
        signal(number, SIG_DFL); /* not a thread's */
    else
        st_fail("crashes: what was freed is followed");
}

void st_make(void) {
    if (ex != NULL)
        return;
    size_t stacks = (size_t)ST_THREADS * STACK, first = (size_t)AREAS * AREA_MOST;
    size_t own = (sizeof *ex + 4095) & ~(size_t)4095;
    uint8_t *p = mmap(NULL, own + stacks + first + AREA_MOST, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    ex = (explorer *)(void *)p;
    ex->stacks = p + own;
    ex->first = p + own + stacks;
    ex->before = ex->first + first;
    stack_t ss = {.ss_sp = ex->signal_stack, .ss_size = sizeof ex->signal_stack};
    struct sigaction sa = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&ss, NULL);
    sigaction(SIGSEGV, &sa, NULL);
    sigaction(SIGBUS, &sa, NULL);
}
