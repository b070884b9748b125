/* Two threads over one ring, and several rings over one sleeper, under load.
 *
 *     test_ring_threads [records [capacity]]
 *
 * Each record carries its length, its number and a checksum, so that one lost, torn,
 * doubled or moved byte shows. Meant for ThreadSanitizer; what the machine's timing
 * does not bring about, tests/c/test_ring_proof.c does.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "ring.h"

enum { MOST_RINGS = 3, HEADER = 12 };

static const hf_errbuf no_text = {NULL, 0};
static uint32_t records = 20000;
static size_t capacity = 4096;

typedef struct line {
    hf_ring ring;
    hf_wake room;
    uint32_t records; /* to be sent */
    uint32_t seed;
    hf_stat refused; /* pushes that found no room */
    uint32_t next;   /* number of the next record to arrive */
    uint8_t *part;   /* what has arrived of a record */
    size_t part_len; /* bytes */
    uint32_t bad;    /* records that are not what was sent */
    int failed;      /* the producer's last code, if not 0 */
} line;

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static uint32_t checksum(const uint8_t *p, size_t n) {
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 16777619u;
    return sum;
}

/* Length, number, checksum, then bytes. */
static void fill(uint8_t *p, uint32_t len, uint32_t number, uint32_t *seed) {
    for (uint32_t i = HEADER; i < len; i++)
        p[i] = (uint8_t)next_random(seed);
    memcpy(p, &len, 4);
    memcpy(p + 4, &number, 4);
    uint32_t sum = checksum(p + HEADER, len - HEADER) ^ number ^ len;
    memcpy(p + 8, &sum, 4);
}

static int send_once(hf_ring *r, uint8_t *record, uint32_t len, uint32_t how) {
    if (hf_ring_by_ref(r, len))
        return hf_ring_push_ref(r, record, len);
    uint8_t *room = how % 2 ? hf_ring_reserve(r, len) : NULL;
    if (room) {
        memcpy(room, record, len);
        hf_ring_commit(r, len);
        return 0;
    }
    struct iovec parts[2] = {{record, len / 3}, {record + len / 3, len - len / 3}};
    return hf_ring_push(r, parts, 2);
}

static void *produce(void *arg) {
    line *l = arg;
    uint32_t seed = l->seed;
    for (uint32_t number = 0; number < l->records; number++) {
        uint32_t limit = (uint32_t)l->ring.capacity / (number % 50 ? 16 : 2);
        uint32_t len = HEADER + next_random(&seed) % limit;
        uint8_t *record = malloc(len);
        if (!record)
            break;
        fill(record, len, number, &seed);
        bool by_ref = hf_ring_by_ref(&l->ring, len);
        int rc;
        while ((rc = send_once(&l->ring, record, len, seed)) == HF_EFULL) {
            hf_stat_add(&l->refused, 1);
            hf_ring_wake_consumer(&l->ring);
            if (hf_ring_want_room(&l->ring) == 0)
                hf_wake_wait(&l->room, -1);
        }
        if (rc || !by_ref)
            free(record);
        l->failed = rc;
        /* Sometimes several records a wake-up, sometimes a pause, so that both the
         * sleeper and the busy consumer are met. */
        if (seed % 4)
            hf_ring_wake_consumer(&l->ring);
        if (seed % 64 == 0)
            sched_yield();
    }
    hf_ring_wake_consumer(&l->ring);
    hf_ring_close(&l->ring);
    return NULL;
}

static void arrived(line *l) {
    uint32_t len, number, sum;
    for (size_t at = 0;; at += len) {
        if (l->part_len - at >= HEADER)
            memcpy(&len, l->part + at, 4);
        if (l->part_len - at < HEADER || l->part_len - at < len) {
            memmove(l->part, l->part + at, l->part_len - at);
            l->part_len -= at;
            return;
        }
        memcpy(&number, l->part + at + 4, 4);
        memcpy(&sum, l->part + at + 8, 4);
        uint32_t want = checksum(l->part + at + HEADER, len - HEADER) ^ number ^ len;
        if (number != l->next || sum != want)
            l->bad++;
        l->next = number + 1;
    }
}

/* Takes some of what waits, now and then a part only. Returns the bytes taken. */
static size_t consume(line *l, uint32_t how) {
    struct iovec seg[2];
    size_t total = 0;
    int n = hf_ring_peek(&l->ring, seg);
    for (int i = 0; i < n; i++) {
        size_t take = how % 3 ? seg[i].iov_len : 1 + seg[i].iov_len / 2;
        take = take < seg[i].iov_len ? take : seg[i].iov_len;
        memcpy(l->part + l->part_len, seg[i].iov_base, take);
        l->part_len += take;
        hf_ring_advance(&l->ring, take);
        total += take;
        if (take < seg[i].iov_len)
            break;
    }
    arrived(l);
    return total;
}

static void run_lines(int n, uint32_t each, size_t size) {
    static line lines[MOST_RINGS];
    pthread_t threads[MOST_RINGS];
    hf_ring *rings[MOST_RINGS];
    hf_wake wake;
    uint32_t seed = 7;
    REQUIRE(hf_wake_init(&wake, no_text) == 0);
    for (int i = 0; i < n; i++) {
        line *l = &lines[i];
        memset(l, 0, sizeof *l);
        REQUIRE(hf_wake_init(&l->room, no_text) == 0);
        REQUIRE(hf_ring_init(&l->ring, size, &wake, &l->room, no_text) == 0);
        l->records = each;
        l->seed = 99 + (uint32_t)i;
        l->part = malloc(2 * size + HEADER);
        REQUIRE(l->part);
        rings[i] = &l->ring;
        REQUIRE(pthread_create(&threads[i], NULL, produce, l) == 0);
    }
    /* Nothing is taken before each ring has been full: else a quick consumer might
     * never let one be. */
    for (int i = 0; i < n; i++) {
        for (int ms = 0; hf_stat_read(&lines[i].refused) == 0; ms++) {
            REQUIRE(ms < 30000);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    for (int ended = 0; ended < n;) {
        size_t got = 0;
        ended = 0;
        for (int i = 0; i < n; i++) {
            got += consume(&lines[i], next_random(&seed));
            ended += hf_ring_ended(rings[i]);
        }
        /* A stuck ring must end the test: at the third second without a byte. */
        for (int late = 0; !got && ended < n && late < 3; late++)
            if (hf_ring_wait(&wake, rings, n, 1000000) == 0)
                break;
            else
                REQUIRE(late < 2);
    }
    for (int i = 0; i < n; i++) {
        line *l = &lines[i];
        pthread_join(threads[i], NULL);
        CHECK_EQ(l->failed, 0);
        CHECK_EQ(l->next, each);
        CHECK_EQ(l->bad, 0);
        CHECK_EQ(l->part_len, 0);
        CHECK_EQ(hf_ring_used(&l->ring), 0);
        hf_ring_free(&l->ring);
        hf_wake_free(&l->room);
        free(l->part);
    }
    CHECK(hf_stat_read(&wake.wakeups) > 0);
    CHECK_EQ(hf_stat_read(&wake.lost), 0);
    hf_wake_free(&wake);
}

static void every_record_arrives_once_and_whole(void) {
    run_lines(1, records, capacity);
}

static void several_rings_share_a_sleeper(void) {
    run_lines(MOST_RINGS, records / MOST_RINGS, capacity);
}

/* One record, then wait for the echo: both sides sleep before nearly each record. */
typedef struct echo {
    hf_slots there, back;
    hf_wake far, near;
    uint32_t rounds;
} echo;

static void *answer(void *arg) {
    echo *e = arg;
    hf_ring *all[] = {&e->there.ring};
    uint64_t slot[3];
    for (uint32_t i = 0; i < e->rounds;) {
        if (!hf_slots_pop(&e->there, slot, 1)) {
            hf_ring_wait(&e->far, all, 1, 1000000);
            continue;
        }
        slot[1] = slot[0] + 1;
        hf_slots_push(&e->back, slot);
        hf_ring_wake_consumer(&e->back.ring);
        i++;
    }
    return NULL;
}

static void a_sleeper_is_woken_for_each_of_many_single_records(void) {
    echo e = {.rounds = records};
    hf_ring *all[] = {&e.back.ring};
    pthread_t thread;
    uint64_t slot[3] = {0};
    REQUIRE(hf_wake_init(&e.far, no_text) == 0 && hf_wake_init(&e.near, no_text) == 0);
    REQUIRE(hf_slots_init(&e.there, sizeof slot, 2, &e.far, NULL, no_text) == 0);
    REQUIRE(hf_slots_init(&e.back, sizeof slot, 2, &e.near, NULL, no_text) == 0);
    REQUIRE(pthread_create(&thread, NULL, answer, &e) == 0);
    for (uint64_t i = 0; i < e.rounds; i++) {
        slot[0] = i;
        REQUIRE(hf_slots_push(&e.there, slot) == 0);
        hf_ring_wake_consumer(&e.there.ring);
        while (!hf_slots_pop(&e.back, slot, 1))
            REQUIRE(hf_ring_wait(&e.near, all, 1, 3000000) == 0);
        CHECK_EQ(slot[1], i + 1);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(hf_stat_read(&e.far.lost) + hf_stat_read(&e.near.lost), 0);
    hf_slots_free(&e.there);
    hf_slots_free(&e.back);
    hf_wake_free(&e.far);
    hf_wake_free(&e.near);
}

int main(int argc, char **argv) {
    records = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : records;
    capacity = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : capacity;
    RUN(every_record_arrives_once_and_whole);
    RUN(several_rings_share_a_sleeper);
    RUN(a_sleeper_is_woken_for_each_of_many_single_records);
    return check_result();
}
