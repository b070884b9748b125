/* The explorer against programs whose outcomes under C11 are known: each that is
 * allowed must turn up, none that is forbidden may.
 */
#define HF_EXPLORE
#include "explore/explore.h"

#include "atomics.h"
#include "check.h"

#ifdef __SANITIZE_THREAD__
int main(void) {
    return 77; /* ThreadSanitizer follows real threads only */
}
#else

static hf_atomic_u32 x, y, z;
static uint64_t a, b, c, d;
static unsigned seen; /* bit per outcome */
static uint8_t plain[4];
static memory_order st, ld;

static void zero(void) {
    hf_init(&x, 0);
    hf_init(&y, 0);
    hf_init(&z, 0);
    a = b = c = d = 0;
    plain[0] = 0;
}

static void note_ab(void) {
    seen |= 1u << (a * 2 + b);
}

static void note_abcd(void) {
    seen |= 1u << (a * 8 + b * 4 + c * 2 + d);
}

static unsigned outcomes(const ex_case *program) {
    seen = 0;
    ex_result r = ex_explore(program, 100000);
    if (r.failed)
        fprintf(stderr, "%s: %s\n%s", program->name, r.why, r.trace);
    CHECK(!r.failed);
    return seen;
}

static int fails(const ex_case *program, const char *why) {
    ex_result r = ex_explore(program, 100000);
    if (r.failed && strstr(r.why, why))
        return 1;
    fprintf(stderr, "%s: \"%s\", not \"%s\"\n", program->name, r.why, why);
    return 0;
}

static void sb_1(void) {
    hf_store(&x, 1, st);
    a = hf_load(&y, ld);
}
static void sb_2(void) {
    hf_store(&y, 1, st);
    b = hf_load(&x, ld);
}

static void store_buffering_is_stopped_by_seq_cst_only(void) {
    ex_case sb = {"store buffering", zero, {sb_1, sb_2}, note_ab, 0};
    st = ld = HF_SEQ_CST;
    CHECK_EQ(outcomes(&sb), 1u << 1 | 1u << 2 | 1u << 3);
    ld = HF_ACQUIRE;
    CHECK_EQ(outcomes(&sb), 15);
    ld = HF_SEQ_CST, st = HF_RELEASE;
    CHECK_EQ(outcomes(&sb), 15);
}

static void mp_1(void) {
    hf_store(&x, 1, HF_RELAXED);
    hf_store(&y, 1, st);
}
static void mp_2(void) {
    a = hf_load(&y, ld);
    b = hf_load(&x, HF_RELAXED);
}

static void a_message_needs_release_and_acquire(void) {
    ex_case mp = {"message passing", zero, {mp_1, mp_2}, note_ab, 0};
    st = HF_RELEASE, ld = HF_ACQUIRE;
    CHECK_EQ(outcomes(&mp), 1u << 0 | 1u << 1 | 1u << 3);
    st = HF_RELAXED;
    CHECK_EQ(outcomes(&mp), 15);
    st = HF_RELEASE, ld = HF_RELAXED;
    CHECK_EQ(outcomes(&mp), 15);
}

static void rr_1(void) {
    hf_store(&x, 1, HF_RELAXED);
}
static void rr_2(void) {
    a = hf_load(&x, HF_RELAXED);
    b = hf_load(&x, HF_RELAXED);
}

static void a_thread_never_reads_backwards(void) {
    ex_case rr = {"read-read coherence", zero, {rr_1, rr_2}, note_ab, 0};
    CHECK_EQ(outcomes(&rr), 1u << 0 | 1u << 1 | 1u << 3);
}

static void rr3_1(void) {
    hf_store(&x, 1, HF_RELAXED);
}
static void rr3_2(void) {
    a = hf_load(&x, HF_RELAXED);
    hf_store(&y, 1, HF_RELEASE);
}
static void rr3_3(void) {
    c = hf_load(&y, HF_ACQUIRE);
    b = hf_load(&x, HF_RELAXED);
}
static void note_backwards(void) {
    seen |= a && c && !b;
}

static void what_another_thread_read_before_us_is_read(void) {
    ex_case rr = {
        "read-read over threads", zero, {rr3_1, rr3_2, rr3_3}, note_backwards, 0};
    CHECK_EQ(outcomes(&rr), 0);
}

static void iriw_w(void) {
    hf_store(&x, 1, st);
}
static void iriw_r1(void) {
    a = hf_load(&x, ld);
    b = hf_load(&y, ld);
}
static void iriw_wr2(void) {
    hf_store(&y, 1, st);
    c = hf_load(&y, ld);
    d = hf_load(&x, ld);
}

static void readers_agree_on_the_order_of_seq_cst_writes(void) {
    /* The second reader writes y itself: three threads show the same. */
    ex_case iriw = {
        "independent reads", zero, {iriw_w, iriw_r1, iriw_wr2}, note_abcd, 0};
    st = ld = HF_SEQ_CST;
    CHECK_EQ(outcomes(&iriw) & 1u << 10, 0);
    st = HF_RELEASE, ld = HF_ACQUIRE;
    CHECK(outcomes(&iriw) & 1u << 10);
}

static void seq_1(void) {
    hf_put(plain, "\1", 1);
    hf_store(&x, 1, HF_RELEASE);
}
static void seq_2(void) {
    if (st == HF_ACQ_REL)
        hf_xchg(&x, 2, HF_RELAXED);
    else
        hf_store(&x, 2, HF_RELAXED);
}
static void seq_3(void) {
    uint8_t got;
    if (hf_load(&x, HF_ACQUIRE) == 2 && hf_load(&y, HF_RELAXED) == 0)
        hf_get(&got, plain, 1);
}
static void seq_2_on_1(void) {
    if (hf_load(&x, HF_RELAXED) == 1)
        seq_2();
}

static void an_exchange_passes_a_release_on_and_a_store_does_not(void) {
    ex_case seq = {"release sequence", zero, {seq_1, seq_2_on_1, seq_3}, NULL, 0};
    st = HF_ACQ_REL;
    CHECK_EQ(outcomes(&seq), 0);
    st = HF_RELAXED;
    CHECK(fails(&seq, "data race"));
}

static void take(uint64_t *got) {
    *got = hf_xchg(&x, 1, HF_RELAXED) == 0;
}
static void take_a(void) {
    take(&a);
}
static void take_b(void) {
    take(&b);
}

static void one_of_two_exchanges_wins(void) {
    ex_case both = {"exchange", zero, {take_a, take_b}, note_ab, 0};
    CHECK_EQ(outcomes(&both), 1u << 1 | 1u << 2);
}

/* 7.17.3p6 by the letter: a seq_cst load may pass over the last seq_cst store for an
 * older store that is not seq_cst and does not happen before it.
 */
static void letter_1(void) {
    d = hf_xchg(&x, 2, st);
    hf_store(&y, 1, HF_SEQ_CST);
    a = hf_load(&x, HF_SEQ_CST);
}
static void letter_2(void) {
    hf_store(&x, 1, HF_SEQ_CST);
    b = hf_load(&y, HF_SEQ_CST);
}
static void note_late(void) {
    /* x = 1 comes after x = 2, and before the load that reads 2 nevertheless. */
    seen |= d == 0 && b == 0 && a == 2;
}

static void the_letter_of_c11_lets_a_weaker_store_be_read_late(void) {
    ex_case letter = {"the letter", zero, {letter_1, letter_2}, note_late, 0};
    st = HF_RELEASE;
    CHECK_EQ(outcomes(&letter), 1);
    st = HF_SEQ_CST;
    CHECK_EQ(outcomes(&letter), 0);
}

static void race_1(void) {
    hf_put(plain, "\1", 1);
}
static void race_2(void) {
    uint8_t got;
    hf_get(&got, plain, 1);
}

static void a_plain_read_beside_a_write_is_a_race(void) {
    ex_case race = {"race", zero, {race_1, race_2}, NULL, 0};
    ex_case reads = {"reads", zero, {race_2, race_2}, NULL, 0};
    CHECK(fails(&race, "data race"));
    CHECK_EQ(outcomes(&reads), 0);
}

static int fd;
static void open_fd(void) {
    zero();
    fd = eventfd(0, 0);
}
static void wait_fd(void) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct timespec brief = {0, 1};
    a = ppoll(&p, 1, st == HF_RELAXED ? NULL : &brief, NULL) == 1;
}
static void signal_fd(void) {
    uint64_t one = 1;
    if (hf_load(&x, HF_RELAXED) == 0)
        b = write(fd, &one, sizeof one) > 0;
}

static void a_sleeper_without_a_signal_is_found(void) {
    ex_case alone = {"no signal", open_fd, {wait_fd}, NULL, 0};
    ex_case timed = {"by time", open_fd, {wait_fd, signal_fd}, note_ab, 1};
    st = HF_RELAXED;
    CHECK(fails(&alone, "sleeps for ever"));
    CHECK_EQ(outcomes(&timed), 1u << 3);
    st = HF_ACQUIRE;
    CHECK_EQ(outcomes(&timed), 1u << 1 | 1u << 3);
}

static void spin(void) {
    while (hf_load(&x, HF_RELAXED) == 0)
        ;
}
static void leak(void) {
    EX_CHECK(malloc(1) != NULL);
}
static void twice(void) {
    void *p = malloc(1);
    free(p);
    free(p);
}

static void what_never_ends_or_leaks_is_found(void) {
    ex_case endless = {"endless", zero, {spin}, NULL, 0};
    ex_case leaks = {"leak", zero, {leak}, NULL, 0};
    ex_case doubles = {"twice", zero, {twice}, NULL, 0};
    CHECK(fails(&endless, "endless"));
    CHECK(fails(&leaks, "never freed"));
    CHECK(fails(&doubles, "freed twice"));
}

static void read_x(void) {
    a = hf_load(&x, HF_RELAXED);
}
static void read_z(void) {
    b = hf_load(&z, HF_RELAXED);
}

static void one_run_stands_for_all_orders_of_independent_steps(void) {
    ex_case apart = {"apart", zero, {mp_1, read_x, read_z}, NULL, 0};
    st = HF_SEQ_CST; /* x is read before its store or after it */
    ex_result r = ex_explore(&apart, 1000);
    CHECK(!r.failed);
    CHECK_EQ(r.runs, 2);
}

int main(void) {
    RUN(store_buffering_is_stopped_by_seq_cst_only);
    RUN(a_message_needs_release_and_acquire);
    RUN(a_thread_never_reads_backwards);
    RUN(what_another_thread_read_before_us_is_read);
    RUN(readers_agree_on_the_order_of_seq_cst_writes);
    RUN(an_exchange_passes_a_release_on_and_a_store_does_not);
    RUN(one_of_two_exchanges_wins);
    RUN(the_letter_of_c11_lets_a_weaker_store_be_read_late);
    RUN(a_plain_read_beside_a_write_is_a_race);
    RUN(a_sleeper_without_a_signal_is_found);
    RUN(what_never_ends_or_leaks_is_found);
    RUN(one_run_stands_for_all_orders_of_independent_steps);
    return check_result();
}
#endif
