/* The search: which states there are, and whether each leads to an end. */
#include "explorer.h"

#include <stdio.h>

#define GROW(array, n, cap)                                      \
    do {                                                         \
        if ((n) == (cap)) {                                      \
            (cap) = (cap) ? 2 * (cap) : 1024;                    \
            (array) = realloc((array), (cap) * sizeof *(array)); \
        }                                                        \
    } while (0)

static void grow_seen(void) {
    size_t size = ex->seen_size ? ex->seen_size * 2 : 1 << 16;
    uint64_t(*to)[3] = calloc(size, sizeof *to);
    for (size_t i = 0; i < ex->seen_size; i++) {
        if (!ex->seen[i][2])
            continue;
        size_t at = ex->seen[i][0] & (size - 1);
        while (to[at][2])
            at = (at + 1) & (size - 1);
        memcpy(to[at], ex->seen[i], sizeof *to);
    }
    free(ex->seen);
    ex->seen = to;
    ex->seen_size = size;
}

/* The number of the present state, whose image is made. */
static uint32_t intern(const way *w, bool *fresh) {
    uint64_t h[2];
    st_hash(h);
    if (2 * ex->n_ways >= ex->seen_size)
        grow_seen();
    size_t at = h[0] & (ex->seen_size - 1);
    while (ex->seen[at][2]) {
        if (ex->seen[at][0] == h[0] && ex->seen[at][1] == h[1]) {
            *fresh = false;
            return (uint32_t)(ex->seen[at][2] - 1);
        }
        at = (at + 1) & (ex->seen_size - 1);
    }
    size_t cap = ex->cap_ways;
    GROW(ex->ways, ex->n_ways, ex->cap_ways);
    if (cap != ex->cap_ways)
        ex->ends = realloc(ex->ends, ex->cap_ways);
    ex->ends[ex->n_ways] = 0;
    ex->ways[ex->n_ways] = *w;
    ex->seen[at][0] = h[0];
    ex->seen[at][1] = h[1];
    ex->seen[at][2] = ++ex->n_ways;
    *fresh = true;
    return (uint32_t)(ex->n_ways - 1);
}

static void push(uint32_t id, uint8_t rest) {
    size_t n = st_take_image();
    GROW(ex->todo, ex->n_todo, ex->cap_todo);
    pending *p = &ex->todo[ex->n_todo++];
    *p = (pending){malloc(n), id, rest};
    memcpy(p->image, ex->image, n);
}

/* ---- The end. ---- */

static void check_end(uint32_t id) {
    for (int i = 1; i < ST_THREADS; i++) {
        const thread *t = &threads[i];
        if (!t->used || t->ended)
            continue;
        if (ex->current->may_rest == NULL || !ex->current->may_rest(i)) {
            char why[200];
            snprintf(why, sizeof why, "%s sleeps for ever, in %s (%s)", t->name,
                     t->func, t->what);
            st_fail(why);
            return;
        }
    }
    ex->ends[id] = 1;
    ex->result.ends++;
    if (ex->current->check != NULL)
        ex->current->check();
    if (!ex->failed)
        st_memory_check(ex->current->may_rest == NULL);
}

/* Marks from where an end can be come to; returns a state from where none can. */
static uint32_t without_end(void) {
    size_t n = ex->n_ways;
    uint32_t *first = calloc(n + 1, sizeof *first);
    uint32_t *from = malloc((ex->n_edges + 1) * sizeof *from);
    uint32_t *queue = malloc((n + 1) * sizeof *queue);
    size_t head = 0, tail = 0;
    for (size_t i = 0; i < ex->n_edges; i++)
        first[ex->edges[i].to + 1]++;
    for (size_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    uint32_t *fill = malloc((n + 1) * sizeof *fill);
    memcpy(fill, first, (n + 1) * sizeof *fill);
    for (size_t i = 0; i < ex->n_edges; i++)
        from[fill[ex->edges[i].to]++] = ex->edges[i].from;
    for (size_t i = 0; i < n; i++)
        if (ex->ends[i])
            queue[tail++] = (uint32_t)i;
    while (head < tail) {
        uint32_t to = queue[head++];
        for (uint32_t i = first[to]; i < first[to + 1]; i++)
            if (!ex->ends[from[i]]) {
                ex->ends[from[i]] = 1;
                queue[tail++] = from[i];
            }
    }
    uint32_t lost = UINT32_MAX;
    for (size_t i = 0; i < n && lost == UINT32_MAX; i++)
        if (!ex->ends[i])
            lost = (uint32_t)i;
    free(first);
    free(from);
    free(queue);
    free(fill);
    return lost;
}

static char *trace_text(uint32_t state) {
    char *text = ex->trace;
    uint32_t *path = ex->path;
    size_t n = 0;
    int steps = 0;
    for (uint32_t s = state; s != 0 && steps < LONGEST; s = ex->ways[s].from)
        path[steps++] = s;
    while (steps > 0 && n + 200 < TRACE) {
        const way *w = &ex->ways[path[--steps]];
        n += (size_t)snprintf(text + n, TRACE - n, "  %d %-8s %s%s  (%s:%d)\n",
                              w->thread, threads[w->thread].name,
                              w->what ? w->what : "", w->by_time ? "  by time" : "",
                              w->func ? w->func : "", w->line);
    }
    text[n] = 0;
    return text;
}

/* ---- The search. ---- */

static void forget(void) {
    while (ex->n_todo > 0)
        free(ex->todo[--ex->n_todo].image);
    if (ex->seen_size)
        memset(ex->seen, 0, ex->seen_size * sizeof *ex->seen);
    ex->n_ways = ex->n_edges = 0;
}

/* Takes the step of one thread; returns the state that it leads to. */
static uint32_t walk(uint32_t from, int number, bool *fresh) {
    const thread *t = &threads[number];
    way w = {from,    (uint8_t)number, t->by_time && !st_ready(t),
             t->what, t->func,         t->line};
    st_go(number);
    ex->result.steps++;
    if (ex->failed) {
        GROW(ex->ways, ex->n_ways, ex->cap_ways);
        ex->ends = realloc(ex->ends, ex->cap_ways);
        ex->ways[ex->n_ways] = w;
        *fresh = false;
        return (uint32_t)ex->n_ways++;
    }
    uint32_t to = intern(&w, fresh);
    GROW(ex->edges, ex->n_edges, ex->cap_edges);
    ex->edges[ex->n_edges++] = (edge){from, to};
    return to;
}

/* Runs to their ends by chance, to learn what is shared before the search counts on
 * it. The chance is the same each time. */
static void rehearse(void) {
    uint32_t chance = 1;
    size_t n = st_take_image();
    uint8_t *first = malloc(n);
    memcpy(first, ex->image, n);
    for (int run = 0; run < REHEARSALS && !ex->failed; run++) {
        uint8_t ways;
        st_restore(first);
        for (int steps = 0; steps < LONGEST && (ways = st_enabled()) != 0; steps++) {
            chance = chance * 1664525u + 1013904223u;
            int skip = (int)(chance >> 16) % __builtin_popcount(ways);
            for (; skip > 0; skip--)
                ways &= (uint8_t)(ways - 1);
            st_go(__builtin_ctz(ways));
            if (ex->failed)
                break;
        }
    }
    if (!ex->again) /* the search will find it */
        ex->failed = false;
    st_restore(first);
    free(first);
}

static void search(long most) {
    bool fresh;
    way none = {0};
    uint32_t at = intern(&none, &fresh);
    int number;
    for (;;) {
        uint8_t ways = fresh ? st_enabled() : 0;
        if (fresh && ways == 0)
            check_end(at);
        if (ex->failed)
            break;
        if (ways != 0) {
            number = __builtin_ctz(ways);
            ways &= (uint8_t)(ways - 1);
            if (ways != 0)
                push(at, ways);
        } else if (ex->n_todo > 0) {
            pending *p = &ex->todo[ex->n_todo - 1];
            st_restore(p->image);
            at = p->id;
            number = __builtin_ctz(p->rest);
            p->rest &= (uint8_t)(p->rest - 1);
            if (p->rest == 0) {
                free(p->image);
                ex->n_todo--;
            }
        } else {
            break;
        }
        at = walk(at, number, &fresh);
        if ((long)ex->n_ways > most)
            st_fail("too many states");
    }
    ex->at_state = at;
}

static void explore(const st_case *c, long most) {
    forget();
    st_restore_before();
    ex->again = false;
    st_kernel_reset();
    memset(threads, 0, sizeof threads);
    memset(&ex->result, 0, sizeof ex->result);
    ex->current = c;
    ex->failed = false;
    ex->now = 0;
    ticks_left = 0;
    ex->setting_up = true;
    c->setup();
    ex->setting_up = false;
    ticks_left = c->ticks;
    st_keep_first();
    if (!ex->failed)
        rehearse();
    if (!ex->failed)
        search(most);
    if (!ex->failed) {
        uint32_t lost = without_end();
        if (lost != UINT32_MAX) {
            ex->at_state = lost;
            st_fail("no way leads to the end from here");
        }
    }
}

st_result st_explore(const st_case *c, long most) {
    st_make();
    memset(ex->things, 0, sizeof ex->things);
    st_kernel_reset();
    st_keep_before();
    do
        explore(c, most);
    while (ex->again);
    ex->result.states = (long)ex->n_ways;
    ex->result.failed = ex->failed;
    ex->result.trace = ex->failed && ex->n_ways > 0 ? trace_text(ex->at_state) : "";
    st_restore_before();
    return ex->result;
}
