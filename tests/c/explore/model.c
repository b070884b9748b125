/* The memory model: what a load may read, what races, what an eventfd does. */
#include "state.h"

#include <errno.h>
#include <stdarg.h>

static void failf(const char *fmt, ...) {
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    ex_fail(why);
}

/* ---- Clocks and the memory model. ---- */

static void tick(void) {
    ex.clocks[ex.now].of[ex.now]++;
}

static bool happened(int thread_number, uint32_t time) {
    return time <= ex.clocks[ex.now].of[thread_number];
}

static bool acquires(memory_order o) {
    return o == memory_order_acquire || o == memory_order_acq_rel ||
           o == memory_order_seq_cst;
}

static bool releases(memory_order o) {
    return o == memory_order_release || o == memory_order_acq_rel ||
           o == memory_order_seq_cst;
}

static memory_order order_at(const char *func, int line, char kind,
                             memory_order order) {
    for (int i = 0; i < ex.site_count; i++) {
        const ex_site *s = &ex.sites[i];
        if (s->line == line && s->kind == kind && strcmp(s->func, func) == 0)
            return s->used == s->order ? order : s->used;
    }
    if (ex.site_count < SITES)
        ex.sites[ex.site_count++] = (ex_site){func, line, kind, order, order};
    return order;
}

static void note(const char *func, int line, char kind, const char *name,
                 memory_order order, uint64_t value, int back) {
    if (!ex.exploring)
        return;
    if (ex.step_count == STEPS) {
        ex_fail("endless");
        return;
    }
    ex.steps[ex.step_count++] =
        (step){ex.now, line, back, func, name, kind, order, value};
}

static location *location_of(const ex_atomic *a) {
    if (a->id < 1 || a->id >= ex.location_count)
        ex_fail("an atomic was used before hf_init");
    return &ex.locations[a->id];
}

static void append(location *l, uint64_t value, memory_order order,
                   const clock_vector *sequence) {
    if (l->store_count == STORES) {
        ex_fail("too many stores");
        return;
    }
    const clock_vector *mine = &ex.clocks[ex.now];
    store *s = &l->stores[l->store_count++];
    *s = (store){.value = value,
                 .thread = ex.now,
                 .time = mine->of[ex.now],
                 .step = ex.step_count + 1,
                 .seq_cst = order == memory_order_seq_cst,
                 .at = *mine};
    if (sequence)
        s->released = *sequence; /* a release sequence goes on through exchanges */
    if (releases(order))
        ex_join(&s->released, mine);
}

/* The oldest store that coherence still lets this thread read. */
static int oldest_readable(const location *l) {
    int oldest = 0;
    for (int i = l->store_count - 1; i > 0; i--)
        if (happened(l->stores[i].thread, l->stores[i].time)) {
            oldest = i;
            break;
        }
    for (int i = 0; i < l->read_count; i++)
        if (l->reads[i].index > oldest &&
            happened(l->reads[i].thread, l->reads[i].time))
            oldest = l->reads[i].index;
    return oldest;
}

/* 7.17.3p6: the last seq_cst store, or one that is not seq_cst and does not happen
 * before that.
 */
static bool readable_in_order(const location *l, int index, int last) {
    const store *s = &l->stores[index];
    if (index == last)
        return true;
    if (s->seq_cst)
        return false;
    return last < 0 || s->time > l->stores[last].at.of[s->thread];
}

static int last_seq_cst(const location *l) {
    int i = l->store_count - 1;
    while (i >= 0 && !l->stores[i].seq_cst)
        i--;
    return i;
}

/* True when the next newer store was executed while this thread already stood in front
 * of its load: the run in which the load goes first comes to the same. Every outcome
 * has a run whose loads all stand as early as they can, and none of its equivalents is
 * left out by this; so it goes together with sleep sets.
 */
static bool could_have_come_first(const location *l, int index) {
    return index + 1 < l->store_count &&
           l->stores[index + 1].step > ex.threads[ex.now].stopped;
}

static int pick_store(const location *l, memory_order order) {
    int candidates[STORES], count = 0;
    int oldest = oldest_readable(l), last = last_seq_cst(l);
    if (!ex.exploring)
        return l->store_count - 1;
    for (int i = l->store_count - 1; i >= oldest; i--)
        if ((order != memory_order_seq_cst || readable_in_order(l, i, last)) &&
            !could_have_come_first(l, i))
            candidates[count++] = i;
    return candidates[ex_choose(count)];
}

void ex_init(ex_atomic *a, uint64_t value, const char *name) {
    if (ex.location_count == LOCATIONS)
        ex_fail("too many atomics");
    a->id = ex.location_count++;
    location *l = &ex.locations[a->id];
    l->name = name;
    l->store_count = l->read_count = 0;
    tick();
    append(l, value, memory_order_relaxed, NULL);
}

uint64_t ex_load(const ex_atomic *a, memory_order order, const char *func, int line) {
    order = order_at(func, line, 'L', order);
    location *l = location_of(a);
    ex_before_step(a->id, 'L');
    tick();
    int index = pick_store(l, order);
    const store *s = &l->stores[index];
    if (l->read_count == READS)
        ex_fail("too many loads");
    l->reads[l->read_count++] =
        (read_record){ex.now, index, ex.clocks[ex.now].of[ex.now]};
    if (acquires(order))
        ex_join(&ex.clocks[ex.now], &s->released);
    note(func, line, 'L', l->name, order, s->value, l->store_count - 1 - index);
    tick();
    return s->value;
}

void ex_store(ex_atomic *a, uint64_t value, memory_order order, const char *func,
              int line) {
    order = order_at(func, line, 'S', order);
    location *l = location_of(a);
    ex_before_step(a->id, 'S');
    tick();
    append(l, value, order, NULL);
    note(func, line, 'S', l->name, order, value, 0);
    tick();
}

uint64_t ex_xchg(ex_atomic *a, uint64_t value, memory_order order, const char *func,
                 int line) {
    order = order_at(func, line, 'X', order);
    location *l = location_of(a);
    ex_before_step(a->id, 'X');
    tick();
    store before = l->stores[l->store_count - 1];
    if (acquires(order))
        ex_join(&ex.clocks[ex.now], &before.released);
    append(l, value, order, &before.released);
    note(func, line, 'X', l->name, order, before.value, 0);
    tick();
    return before.value;
}

/* ---- Plain memory. ---- */

static byte_record *byte_at(const uint8_t *address) {
    size_t at = (size_t)((uintptr_t)address * 2654435761u >> 4);
    for (size_t i = 0; i < BYTES; i++) {
        byte_record *b = &ex.bytes[(at + i) % BYTES];
        if (b->run != ex.run)
            *b = (byte_record){.address = address, .run = ex.run};
        if (b->address == address)
            return b;
    }
    ex_fail("too many plain bytes");
    return &ex.bytes[0];
}

static void touch(const void *p, size_t n, bool writes, const char *func, int line) {
    for (size_t i = 0; i < n; i++) {
        byte_record *b = byte_at((const uint8_t *)p + i);
        bool race = !happened(b->writer, b->written);
        for (int t = 0; writes && t < EX_THREADS; t++)
            race = race || !happened(t, b->read[t]);
        if (race)
            failf("data race at %s:%d", func, line);
        uint32_t time = ex.clocks[ex.now].of[ex.now];
        if (writes) {
            b->writer = ex.now;
            b->written = time;
        } else {
            b->read[ex.now] = time;
        }
    }
}

void ex_put(void *shared, const void *from, size_t n, const char *func, int line) {
    touch(shared, n, true, func, line);
    memcpy(shared, from, n);
}

void ex_get(void *to, const void *shared, size_t n, const char *func, int line) {
    touch(shared, n, false, func, line);
    memcpy(to, shared, n);
}

void *ex_malloc(size_t n) {
    if (ex.block_count == BLOCKS)
        ex_fail("too many blocks");
    uint8_t *p = malloc(n);
    ex.blocks[ex.block_count].p = p;
    ex.blocks[ex.block_count].n = n;
    ex.blocks[ex.block_count++].freed = false;
    return p;
}

/* A freed block is kept until the run ends, so that no address comes back and freeing
 * counts as a write to all of it.
 */
void ex_free(void *p) {
    if (!p)
        return;
    for (int i = 0; i < ex.block_count; i++) {
        if (ex.blocks[i].p != p)
            continue;
        if (ex.blocks[i].freed)
            ex_fail("freed twice");
        ex.blocks[i].freed = true;
        touch(p, ex.blocks[i].n, true, "free", 0);
        return;
    }
    ex_fail("freed what was never allocated");
}

/* ---- eventfd. ---- */

int ex_eventfd(unsigned count, int flags) {
    (void)flags;
    ex_atomic handle;
    ex_init(&handle, 0, "eventfd");
    ex.locations[handle.id].tokens = count;
    return FIRST_FD + handle.id;
}

int ex_close(int fd) {
    (void)fd;
    return 0;
}

ssize_t ex_write(int fd, const void *p, size_t n) {
    location *l = &ex.locations[fd - FIRST_FD];
    uint64_t count;
    ex_before_step(fd - FIRST_FD, 'W');
    memcpy(&count, p, sizeof count);
    l->tokens += count;
    note("write", 0, 'W', l->name, memory_order_relaxed, l->tokens, 0);
    return (ssize_t)n;
}

/* No step of its own: an eventfd has one reader, and a write between its poll and its
 * read comes to the same as one before the poll.
 */
ssize_t ex_read(int fd, void *p, size_t n) {
    location *l = &ex.locations[fd - FIRST_FD];
    note("read", 0, 'R', l->name, memory_order_relaxed, l->tokens, 0);
    if (!l->tokens) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(p, &l->tokens, sizeof l->tokens);
    l->tokens = 0;
    return (ssize_t)n;
}

int ex_ppoll(struct pollfd *p, nfds_t n, const struct timespec *time,
             const void *mask) {
    (void)n, (void)mask;
    location *l = &ex.locations[p->fd - FIRST_FD];
    ex.threads[ex.now].may_time_out = time != NULL;
    ex_before_step(p->fd - FIRST_FD, 'P');
    note("ppoll", 0, 'P', l->name, memory_order_relaxed, l->tokens, 0);
    if (l->tokens)
        return 1;
    ex.timeouts_left--;
    return 0;
}
