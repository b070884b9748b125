/* Every run of ring.c in small cases, and proof that the cases have teeth.
 *
 *     test_ring_proof            cases, then each memory order weakened in turn
 *     test_ring_proof cases      the cases only, up to the first that fails
 *
 * Each case is tried with the positions starting at each offset in front of 2^64, so
 * that the wrap of the ring and that of the positions fall everywhere. It fails when a
 * byte is lost, doubled, torn or raced for, a block leaks, or a thread sleeps for ever.
 * Then one order at a time is weakened by one step, and some case must fail.
 *
 * tests/test_ring_mutants.py builds this file over broken copies of ring.c.
 */
#define HF_EXPLORE
#define HF_RING_REFS 2
#include "explore/explore.h"

#ifndef RING_C
#define RING_C "../../csrc/ring.c"
#endif
#include RING_C

#include "check.h"

#ifdef __SANITIZE_THREAD__
int main(void) {
    return 77; /* ThreadSanitizer follows real threads only */
}
#else

#ifdef __SANITIZE_ADDRESS__
/* Contexts switch by system calls there, and it is bad accesses that are looked for. */
static const bool quick = true;
#else
static const bool quick = false;
#endif

enum { CAPACITY = 8, RINGS = 2, LONGEST = 40 };

/* QUIET: no hf_ring_wake_consumer behind it. */
enum { PUSH, RESERVE, REF, QUIET = 8 };

typedef struct item {
    uint8_t by;  /* PUSH, RESERVE or REF, maybe with QUIET */
    uint8_t len; /* bytes */
} item;

/* A case: what is sent through each ring, and how both sides behave. */
typedef struct plan {
    const char *name;
    item items[RINGS][5]; /* to the first of no length */
    int rings;
    size_t step;    /* bytes that the consumer takes at once; 0: all */
    bool close;     /* the end is told by hf_ring_close */
    size_t abandon; /* bytes after which the consumer goes away; 0: never */
    bool slots;     /* items are slots of one size */
    int timeouts;   /* waits that may end by time */
    int offsets;    /* start positions tried */
} plan;

static const plan plans[] = {
    {.name = "two records, waiting for room and for data",
     .items = {{{PUSH, 5}, {PUSH, 4}}},
     .rings = 1,
     .offsets = 8},
    {.name = "the end with a reference, unannounced",
     .items = {{{PUSH | QUIET, 1}, {REF | QUIET, 1}}},
     .rings = 1,
     .close = true,
     .offsets = 2},
    {.name = "the consumer goes away",
     .items = {{{PUSH, 6}, {PUSH, 6}, {PUSH, 6}}},
     .rings = 1,
     .abandon = 6,
     .offsets = 2},
    {.name = "a reference past the byte budget, in parts",
     .items = {{{REF, 40}, {REF, 1}}},
     .rings = 1,
     .step = 39,
     .offsets = 2},
    {.name = "references into a full ring",
     .items = {{{PUSH, 8}, {REF, 1}}},
     .rings = 1,
     .offsets = 8},
    {.name = "two rings, one sleeper",
     .items = {{{PUSH, 3}}, {{PUSH, 2}}},
     .rings = 2,
     .offsets = 1},
    {.name = "one wake-up for two records",
     .items = {{{PUSH | QUIET, 3}, {PUSH, 2}, {PUSH, 2}}},
     .rings = 1,
     .offsets = 8},
    {.name = "the consumer goes away from references",
     .items = {{{REF, 1}, {REF, 1}, {REF, 1}, {REF, 1}}},
     .rings = 1,
     .abandon = 1,
     .offsets = 2},
    {.name = "told that it is the end",
     .items = {{{PUSH, 5}, {PUSH, 4}}},
     .rings = 1,
     .close = true,
     .offsets = 2},
    {.name = "a reference between bytes",
     .items = {{{PUSH, 2}, {REF, 3}, {PUSH, 2}}},
     .rings = 1,
     .offsets = 4},
    {.name = "waits that end by time lose nothing",
     .items = {{{PUSH, 5}, {PUSH, 4}}},
     .rings = 1,
     .timeouts = 2,
     .offsets = 2},
    {.name = "slots",
     .items = {{{PUSH, 3}, {PUSH, 3}, {PUSH, 3}}},
     .rings = 1,
     .slots = true,
     .offsets = 2},
    {.name = "more references than may wait",
     .items = {{{REF, 2}, {REF, 1}, {REF, 1}}},
     .rings = 1,
     .offsets = 1},
    {.name = "a full ring, and parts",
     .items = {{{PUSH, 8}, {PUSH, 1}}},
     .rings = 1,
     .step = 3,
     .offsets = 8},
    {.name = "encoded in place",
     .items = {{{RESERVE, 4}, {RESERVE, 4}, {RESERVE, 2}}},
     .rings = 1,
     .offsets = 2},
    {.name = "three records",
     .items = {{{PUSH, 5}, {PUSH, 4}, {PUSH, 3}}},
     .rings = 1,
     .offsets = 2},
};

static const plan *now;
static uint64_t start;
static hf_slots lines[RINGS]; /* the slots, or their ring alone */
static hf_wake there, room[RINGS];
static uint8_t sent[RINGS][LONGEST * 5], got[RINGS][LONGEST * 5];
static size_t sent_len[RINGS], want_len[RINGS], got_len[RINGS];
static bool went_away;

/* ---- The producer. ---- */

static int send_once(hf_ring *r, const item *it, const uint8_t *bytes) {
    if ((it->by & ~QUIET) == REF) {
        uint8_t *heap = malloc(it->len);
        hf_put(heap, bytes, it->len);
        int rc = hf_ring_push_ref(r, heap, it->len);
        if (rc)
            free(heap);
        return rc;
    }
    uint8_t *place = it->by == RESERVE ? hf_ring_reserve(r, it->len) : NULL;
    if (place) {
        hf_put(place, bytes, it->len);
        hf_ring_commit(r, it->len);
        return 0;
    }
    struct iovec parts[2] = {{(void *)(uintptr_t)bytes, 1},
                             {(void *)(uintptr_t)(bytes + 1), it->len - 1u}};
    return hf_ring_push(r, parts, 2);
}

static void produce(int number) {
    hf_ring *r = &lines[number].ring;
    for (const item *it = now->items[number]; it->len; it++) {
        uint8_t bytes[LONGEST];
        int rc;
        for (int i = 0; i < it->len; i++)
            bytes[i] = (uint8_t)(number * 100 + (int)sent_len[number] + i + 1);
        while ((rc = send_once(r, it, bytes)) == HF_EFULL) {
            hf_ring_wake_consumer(r);
            rc = hf_ring_want_room(r);
            if (rc == HF_EPIPE)
                return;
            if (rc == 0)
                hf_wake_wait(&room[number], -1);
        }
        EX_CHECK(rc == 0);
        memcpy(sent[number] + sent_len[number], bytes, it->len);
        sent_len[number] += it->len;
        if (!(it->by & QUIET))
            hf_ring_wake_consumer(r);
    }
    if (now->close)
        hf_ring_close(r);
}

static void produce_0(void) {
    produce(0);
}
static void produce_1(void) {
    produce(1);
}

/* ---- The consumer. ---- */

static size_t take(int number) {
    struct iovec seg[2];
    size_t total = 0, most = now->step ? now->step : SIZE_MAX;
    int n = hf_ring_peek(&lines[number].ring, seg);
    for (int i = 0; i < n; i++) {
        size_t len = seg[i].iov_len < most - total ? seg[i].iov_len : most - total;
        EX_CHECK(got_len[number] + len <= sizeof got[number]);
        hf_get(got[number] + got_len[number], seg[i].iov_base, len);
        got_len[number] += len;
        total += len;
    }
    hf_ring_advance(&lines[number].ring, total);
    return total;
}

static size_t take_slots(int number) {
    int n = hf_slots_pop(&lines[number], got[number] + got_len[number], 2);
    got_len[number] += (size_t)n * lines[number].slot_size;
    return (size_t)n;
}

static bool wants_more(int number) {
    if (now->close)
        return !hf_ring_ended(&lines[number].ring);
    return got_len[number] < want_len[number];
}

static void consume(void) {
    hf_ring *all[RINGS] = {&lines[0].ring, &lines[1].ring};
    for (;;) {
        bool more = false;
        size_t taken = 0;
        for (int i = 0; i < now->rings; i++) {
            if (!wants_more(i))
                continue;
            more = true;
            taken += now->slots ? take_slots(i) : take(i);
        }
        if (!more)
            return;
        if (now->abandon && got_len[0] >= now->abandon) {
            went_away = true;
            hf_ring_abandon(&lines[0].ring);
            return;
        }
        if (!taken)
            hf_ring_wait(&there, all, now->rings, now->timeouts ? 1 : -1);
    }
}

/* ---- The cases. ---- */

static void setup(void) {
    static const hf_errbuf no_text = {NULL, 0};
    EX_CHECK(hf_wake_init(&there, no_text) == 0);
    went_away = false;
    for (int i = 0; i < now->rings; i++) {
        hf_ring *r = &lines[i].ring;
        EX_CHECK(hf_wake_init(&room[i], no_text) == 0);
        EX_CHECK(hf_ring_init(r, CAPACITY, &there, &room[i], no_text) == 0);
        hf_init(&r->tail, start);
        hf_init(&r->announced, start);
        hf_init(&r->head, start);
        r->tail_pos = r->head_seen = r->told_pos = r->head_pos = start;
        sent_len[i] = got_len[i] = want_len[i] = 0;
        lines[i].slot_size = now->items[i][0].len;
        for (const item *it = now->items[i]; it->len; it++)
            want_len[i] += it->len;
    }
}

static void check_all(void) {
    EX_CHECK(hf_stat_read(&there.lost) == 0);
    for (int i = 0; i < now->rings; i++) {
        if (!went_away) {
            EX_CHECK(got_len[i] == want_len[i] && sent_len[i] == want_len[i]);
            EX_CHECK(hf_ring_used(&lines[i].ring) == 0);
        }
        EX_CHECK(memcmp(sent[i], got[i], got_len[i]) == 0);
        hf_ring_free(&lines[i].ring);
        hf_wake_free(&room[i]);
    }
    hf_wake_free(&there);
}

/* Tries one case at each of its offsets. Returns the first failure, or the sum. */
static ex_result try_plan(const plan *p) {
    ex_result sum = {0};
    ex_case c = {p->name,
                 setup,
                 {consume, produce_0, p->rings > 1 ? produce_1 : NULL},
                 check_all,
                 p->timeouts};
    now = p;
    for (int i = 0; i < p->offsets; i++) {
        start = (uint64_t)(i * CAPACITY / p->offsets) - CAPACITY;
        ex_result r = ex_explore(&c, quick ? 2000 : 3000000);
        if (r.failed && !(quick && r.cut))
            return r;
        sum.runs += r.runs;
        sum.pruned += r.pruned;
    }
    return sum;
}

static int try_all(void) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        ex_result r = try_plan(&plans[i]);
        if (r.failed) {
            printf("%s: %s\n%s", plans[i].name, r.why, r.trace);
            return 1;
        }
        printf("%7ld runs, %8ld repeated  %s\n", r.runs, r.pruned, plans[i].name);
        fflush(stdout);
    }
    return 0;
}

/* ---- Teeth. ---- */

/* The next weaker orders of an operation. */
static int weaker(const ex_site *s, memory_order out[2]) {
    switch (s->order) {
    case memory_order_seq_cst:
        out[0] = s->kind == 'L'   ? memory_order_acquire
                 : s->kind == 'S' ? memory_order_release
                                  : memory_order_acq_rel;
        return 1;
    case memory_order_acq_rel:
        out[0] = memory_order_acquire;
        out[1] = memory_order_release;
        return 2;
    case memory_order_relaxed:
        return 0;
    default:
        out[0] = memory_order_relaxed;
        return 1;
    }
}

/* Orders that matter only where a load may read a store that comes later (load
 * buffering), which the explorer does not do: an announcement must not be seen before
 * what the announcer did to the sleeping flag, or a wake-up is counted as lost that was
 * not.
 */
static bool beyond_us(const ex_site *site) {
    return strcmp(site->func, "hf_ring_wake_consumer") == 0 ||
           strcmp(site->func, "hf_ring_overdue") == 0;
}

/* Returns 1 when some case fails with the place weakened to order. */
static int killed(ex_site *site, memory_order order) {
    ex_result r = {0};
    size_t i;
    site->used = order;
    for (i = 0; i < sizeof plans / sizeof *plans && !r.failed; i++)
        r = try_plan(&plans[i]);
    site->used = site->order;
    printf("%-8s %s:%d %c %s -> %s: %s%s%s\n", r.failed ? "killed" : "SURVIVED",
           site->func, site->line, site->kind, ex_order_name(site->order),
           ex_order_name(order), r.failed ? plans[i - 1].name : "",
           r.failed ? ": " : "", r.failed ? r.why : "");
    fflush(stdout);
    return r.failed;
}

static void each_weaker_order_fails_some_case(void) {
    int count;
    ex_site *sites = ex_sites(&count);
    memory_order orders[2];
    CHECK(count > 20);
    for (int i = 0; i < count; i++)
        for (int n = weaker(&sites[i], orders); n > 0; n--)
            if (beyond_us(&sites[i]))
                printf("beyond   %s:%d %c\n", sites[i].func, sites[i].line,
                       sites[i].kind);
            else
                CHECK(killed(&sites[i], orders[n - 1]));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "cases") == 0)
        return try_all();
    REQUIRE(CHECK_EQ(try_all(), 0));
    if (!quick)
        RUN(each_weaker_order_fails_some_case);
    return check_result();
}
#endif
