/* The explorer: contexts, decisions, runs. Its own memory is no part of what is tried.
 */
#include "state.h"

explorer ex;

/* ---- Contexts. ---- */

/* longjmp between stacks makes no system call; sanitizers know only swapcontext. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((noinline)) static void enter(thread *t) {
    swapcontext(&ex.scheduler_context, &t->context);
}
__attribute__((noinline)) static void leave(thread *t) {
    swapcontext(&t->context, &ex.scheduler_context);
}
#else
__attribute__((noinline)) static void enter(thread *t) {
    if (_setjmp(ex.scheduler))
        return;
    if (t->started)
        _longjmp(t->jump, 1);
    t->started = true;
    setcontext(&t->context);
}
__attribute__((noinline)) static void leave(thread *t) {
    if (!_setjmp(t->jump))
        _longjmp(ex.scheduler, 1);
}
#endif

void ex_fail(const char *why) {
    if (!ex.failed)
        snprintf(ex.why, sizeof ex.why, "%s", why);
    ex.failed = true;
    if (ex.exploring)
        leave(&ex.threads[ex.now]);
}

static void thread_main(void) {
    thread *t = &ex.threads[ex.now];
    ex.current->threads[ex.now - 1]();
    t->ended = true;
    leave(t);
}

void ex_before_step(int object, char kind) {
    if (!ex.exploring)
        return;
    thread *t = &ex.threads[ex.now];
    t->object = object;
    t->kind = kind;
    t->stopped = ex.step_count;
    leave(t);
}

/* ---- Decisions. ---- */

static node *next_node(void) {
    if (ex.depth == 2 * STEPS) {
        ex_fail("too many decisions");
        return &ex.nodes[2 * STEPS - 1];
    }
    return &ex.nodes[ex.depth++];
}

int ex_choose(int count) {
    if (count == 1 || !ex.exploring)
        return 0;
    node *n = next_node();
    if (ex.depth > ex.known) {
        *n = (node){.is_read = true, .count = (uint8_t)count};
        ex.known = ex.depth;
    }
    return n->chosen;
}

static int lowest(uint8_t mask) {
    return __builtin_ctz(mask);
}

/* Steps commute unless they touch one object and one of them changes it. */
static bool independent(const thread *a, const thread *b) {
    return a->object != b->object || (a->kind == 'L' && b->kind == 'L');
}

/* Returns the thread to go on, 0 when each would only repeat another run. */
static int pick(uint8_t enabled) {
    node *n = next_node();
    if (ex.depth > ex.known) {
        uint8_t fresh = (uint8_t)(enabled & ~ex.sleep);
        if (!fresh)
            return 0;
        *n = (node){
            .enabled = enabled, .sleep = ex.sleep, .chosen = (uint8_t)lowest(fresh)};
        ex.known = ex.depth;
    }
    uint8_t sleep = 0;
    for (int t = 1; t < EX_THREADS; t++)
        if (n->sleep >> t & 1 && independent(&ex.threads[t], &ex.threads[n->chosen]))
            sleep |= (uint8_t)(1 << t);
    ex.sleep = sleep;
    return n->chosen;
}

/* Moves the deepest decision that has another way left. False: all were tried. */
static bool next_run(void) {
    for (; ex.known > 0; ex.known--) {
        node *n = &ex.nodes[ex.known - 1];
        if (n->is_read) {
            if (++n->chosen < n->count)
                return true;
            continue;
        }
        n->sleep |= (uint8_t)(1 << n->chosen);
        uint8_t rest = (uint8_t)(n->enabled & ~n->sleep);
        if (rest) {
            n->chosen = (uint8_t)lowest(rest);
            return true;
        }
    }
    return false;
}

/* ---- The explorer itself. ---- */

static bool can_go_on(const thread *t) {
    if (t->ended)
        return false;
    return t->kind != 'P' || ex.locations[t->object].tokens ||
           (t->may_time_out && ex.timeouts_left > 0);
}

static void reset(const ex_case *c) {
    for (int i = 0; i < ex.block_count; i++)
        free(ex.blocks[i].p);
    ex.block_count = 0;
    ex.location_count = 1;
    memset(ex.clocks, 0, sizeof ex.clocks);
    ex.depth = ex.step_count = 0;
    ex.sleep = 0;
    ex.run++;
    ex.failed = false;
    ex.timeouts_left = c->timeouts;
    ex.current = c;
    ex.now = 0;
}

/* Brings the thread in front of its first step. */
static void start(int number) {
    thread *t = &ex.threads[number];
    t->ended = !ex.current->threads[number - 1];
    t->started = false;
    if (t->ended)
        return;
    ex.clocks[number] = ex.clocks[0];
    ex.clocks[number].of[number] = 1;
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = ex.stacks[number];
    t->context.uc_stack.ss_size = STACK;
    t->context.uc_link = NULL;
    makecontext(&t->context, thread_main, 0);
    ex.now = number;
    enter(t);
}

/* Returns false when the run was left as equivalent to another. */
static bool run_threads(void) {
    while (!ex.failed) {
        uint8_t enabled = 0;
        bool all_ended = true;
        for (int i = 1; i < EX_THREADS; i++) {
            all_ended = all_ended && ex.threads[i].ended;
            if (can_go_on(&ex.threads[i]))
                enabled |= (uint8_t)(1 << i);
        }
        if (all_ended)
            return true;
        if (!enabled) {
            snprintf(ex.why, sizeof ex.why, "a thread sleeps for ever");
            ex.failed = true;
            return true;
        }
        ex.now = pick(enabled);
        if (!ex.now)
            return false;
        enter(&ex.threads[ex.now]);
    }
    return true;
}

static bool run_once(const ex_case *c) {
    reset(c);
    c->setup();
    ex.exploring = true;
    for (int i = 1; i < EX_THREADS; i++)
        start(i);
    bool whole = run_threads();
    ex.exploring = false;
    ex.now = 0;
    if (ex.failed || !whole)
        return whole;
    for (int i = 1; i < EX_THREADS; i++)
        ex_join(&ex.clocks[0], &ex.clocks[i]);
    if (c->check)
        c->check();
    for (int i = 0; i < ex.block_count && !ex.failed; i++)
        if (!ex.blocks[i].freed)
            ex_fail("a block was never freed");
    return true;
}

static char *trace_text(void) {
    static char text[64 * 1024];
    size_t n = 0;
    for (int i = 0; i < ex.step_count && n < sizeof text - 200; i++) {
        const step *s = &ex.steps[i];
        int written = snprintf(
            text + n, sizeof text - n, "  thread %d  %c %-20s %-8s = %llu%s  (%s:%d)\n",
            s->thread, s->kind, s->name, ex_order_name(s->order),
            (unsigned long long)s->value, s->back ? "  old" : "", s->func, s->line);
        n += written > 0 ? (size_t)written : 0;
    }
    text[n] = 0;
    return text;
}

ex_result ex_explore(const ex_case *c, long limit) {
    ex_result r = {0};
    ex.known = 0;
    do {
        if (run_once(c))
            r.runs++;
        else
            r.pruned++;
        if (!ex.failed && r.runs + r.pruned >= limit) {
            snprintf(ex.why, sizeof ex.why, "more than %ld runs", limit);
            ex.failed = true;
            r.cut = 1;
        }
        if (ex.failed) {
            r.failed = 1;
            memcpy(r.why, ex.why, sizeof r.why);
            r.trace = trace_text();
            return r;
        }
    } while (next_run());
    return r;
}

ex_site *ex_sites(int *count) {
    *count = ex.site_count;
    return ex.sites;
}

const char *ex_order_name(memory_order order) {
    switch (order) {
    case memory_order_relaxed:
        return "relaxed";
    case memory_order_acquire:
        return "acquire";
    case memory_order_release:
        return "release";
    case memory_order_acq_rel:
        return "acq_rel";
    case memory_order_seq_cst:
        return "seq_cst";
    default:
        return "consume";
    }
}
