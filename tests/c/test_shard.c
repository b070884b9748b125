/* A shard without a loop: the test plays the loop, policy and the reader, in virtual
 * time. Each request must come out once, whatever happens to it in which order. */
#define PLAY_SHARDS 1
#include "shard_play.h"

static hf_shard *const s = shards;
static uint64_t cancelled_records;
static uint64_t timeless_records;

static void configure(void) {
    hf_config_default(&cfg);
    cfg.ring_bytes = 65536;
    cfg.report_unanswered = 1;
    cfg.max_per_host = 3;
    cfg.max_concurrency = 20;
}

static void open_shard(void) {
    play_open();
    cancelled_records = timeless_records = 0;
}

static hf_request *submit(int host, int64_t deadline) {
    char line[64];
    snprintf(line, sizeof line, "http://10.0.%d.%d/", host / 256, host % 256);
    return play_submit(s, line, deadline);
}

static void note_line(const uint8_t *line, size_t n) {
    cancelled_records += (uint64_t)json_has(line, n, "error.type", "\"cancelled\"");
    timeless_records += (uint64_t)json_has(line, n, "elapsed", "null");
}

static int read_all(void) {
    for (int i = 0; i < 1000; i++) {
        hf_shard_unpark(s, now);
        play_read(s, note_line);
        if (s->parked.first == NULL && hf_ring_used(&s->ring) == 0) {
            return 1;
        }
    }
    return 0;
}

static hf_request *start_one(void) {
    hf_request *r = hf_shard_next(s, now);
    if (r != NULL) {
        CHECK(r->state == HF_R_RUNNING && r->response != NULL);
        hf_heap_set(&s->heap, &r->due, now + 10000000);
    }
    return r;
}

static void a_request_goes_in_and_its_record_out(void) {
    configure();
    open_shard();
    submit(0, 0);
    hf_shard_take_inbox(s, &now);
    CHECK(hf_shard_may_start(s, now));
    hf_request *r = start_one();
    REQUIRE(r);
    CHECK_EQ(hf_load(&shared.in_flight, HF_SEQ_CST), 1);
    CHECK(start_one() == NULL && !hf_shard_may_start(s, now));
    now += 5000;
    play_end(s, r, HF_T_NONE);
    CHECK(read_all() && play_answered());
    play_close();
}

/* The owner looks at the clock, then into the inbox: what came in between is younger
 * than its look. */
static void no_record_tells_of_a_time_before_its_request(void) {
    configure();
    cfg.max_per_host = 0;
    open_shard();
    int64_t looked = now;
    for (int i = 0; i < 4; i++) {
        now += 250;
        submit(0, 0);
    }
    hf_shard_post_stop(s, now);
    int64_t accepted = now;
    now = looked;
    hf_shard_take_inbox(s, &now);
    CHECK_EQ(now, accepted);
    CHECK(read_all() && play_answered());
    CHECK_EQ(timeless_records, 0);
    play_close();
}

static void what_starts_at_once_was_accepted_before(void) {
    configure();
    open_shard();
    now += 250;
    submit(0, 0);
    now -= 250;
    hf_shard_take_inbox(s, &now);
    hf_request *r = start_one();
    REQUIRE(r);
    CHECK(r->first_start >= r->accepted);
    play_end(s, r, HF_T_NONE);
    CHECK(read_all() && play_answered());
    CHECK_EQ(timeless_records, 0);
    play_close();
}

/* Limits must not get lost for want of memory: their room is made before a start. */
static void room_for_all_limits_is_made_at_the_start(void) {
    configure();
    open_shard();
    for (int i = 0; i < 500; i++) {
        submit(i, 0);
    }
    hf_shard_take_inbox(s, &now);
    CHECK(s->heap.cap >= 500 + (int32_t)s->schedule.hosts.n);
    CHECK(s->hards.cap >= 500);
    play_close();
}

static void a_full_ring_parks_in_order_and_stops_admission(void) {
    configure();
    cfg.max_per_host = 0;
    cfg.max_concurrency = 2000;
    open_shard();
    for (int i = 0; i < 400; i++) {
        submit(0, 0);
    }
    hf_shard_take_inbox(s, &now);
    static hf_request *running[400];
    for (int i = 0; i < 300; i++) {
        running[i] = start_one();
        REQUIRE(running[i]);
    }
    for (int i = 0; i < 300; i++) {
        play_end(s, running[i], HF_T_TIMEOUT);
    }
    CHECK(s->parked.n > 0 && hf_stat_read(&s->counts.ring_full) == s->parked.n);
    CHECK(start_one() == NULL && !hf_shard_may_start(s, now));
    uint64_t first = s->parked.first->seq;
    hf_shard_unpark(s, now);
    CHECK_EQ(s->parked.first->seq, first);
    CHECK(!hf_shard_may_unpark(s)); /* or its loop would not sleep */
    CHECK(read_all());
    CHECK(hf_shard_may_start(s, now));
    hf_request *r;
    while ((r = start_one()) != NULL) {
        play_end(s, r, HF_T_NONE);
        CHECK(read_all());
    }
    CHECK(play_answered());
    play_close();
}

static hf_verdict verdict_for(uint64_t seq, int retry, int64_t delay) {
    hf_verdict v = {.seq = seq, .retry = retry, .delay = delay, .exit = -1};
    if (!retry) {
        memcpy(v.denied, "budget", 7);
    }
    return v;
}

static void policy_sees_what_it_asked_for_and_decides(void) {
    configure();
    cfg.retry_types = (uint64_t)1 << HF_T_TIMEOUT;
    open_shard();
    hf_event ev[4];
    hf_request *r = submit(0, 0);
    hf_shard_take_inbox(s, &now);
    REQUIRE(start_one() == r);
    play_end(s, r, HF_T_TIMEOUT);
    REQUIRE(hf_slots_pop(&s->events, ev, 4) == 1);
    CHECK(ev[0].seq == 0 && ev[0].type == HF_T_TIMEOUT && ev[0].attempt == 1);
    CHECK(ev[0].left == -1 && (ev[0].flags & HF_EV_IDEMPOTENT) != 0);
    CHECK_TEXT(ev[0].host, "10.0.0.0:80");
    hf_verdict v = verdict_for(0, 1, 50000);
    hf_shard_post_verdicts(s, &v, 1);
    hf_shard_take_inbox(s, &now);
    CHECK_EQ(hf_heap_next(&s->heap), now + 50000);
    hf_shard_post_verdicts(s, &v, 1); /* it waits for none any more */
    hf_shard_take_inbox(s, &now);
    now += 50000;
    play_due(s);
    REQUIRE(start_one() == r);
    play_end(s, r, HF_T_TIMEOUT);
    REQUIRE(hf_slots_pop(&s->events, ev, 4) == 1 && ev[0].attempt == 2);
    v = verdict_for(0, 0, 0);
    hf_shard_post_verdicts(s, &v, 1);
    hf_shard_take_inbox(s, &now);
    CHECK(read_all() && play_answered());
    play_close();
}

/* The start of each body goes along; one that policy finds bad is noted as such. */
static void policy_looks_at_bodies(void) {
    enum { MATCHED = 65536 };
    static const size_t sizes[] = {0, 5, MATCHED + 1};
    static uint8_t body[MATCHED + 1];
    memset(body, 'x', sizeof body);
    for (int i = 0; i < 3; i++) {
        hf_event ev[2];
        size_t seen = sizes[i] < MATCHED ? sizes[i] : MATCHED;
        configure();
        cfg.ask_bodies = 1;
        cfg.body_mode = HF_BODY_NONE;
        open_shard();
        hf_request *r = submit(0, 0);
        hf_shard_take_inbox(s, &now);
        REQUIRE(start_one() == r);
        REQUIRE(hf_buf_append(&r->response->body, body, sizes[i]) == 0);
        play_end(s, r, HF_T_NONE);
        REQUIRE(hf_slots_pop(&s->events, ev, 2) == (sizes[i] > 0));
        if (sizes[i] > 0) {
            CHECK_EQ(ev[0].body_len, (int64_t)seen);
            CHECK(memcmp(ev[0].body, body, seen) == 0);
            hf_event_clear(&ev[0]);
            CHECK(ev[0].body == NULL);
            hf_verdict v = verdict_for(0, 0, 0);
            v.content = 1;
            hf_shard_post_verdicts(s, &v, 1);
            CHECK_EQ(r->attempts[0].rejected, HF_REJECTED_NOT);
            hf_shard_take_inbox(s, &now);
        }
        CHECK(read_all() && play_answered());
        play_close();
    }
}

/* What is left in the event ring goes with the shard, bodies too. */
static void bodies_that_nobody_looked_at_are_freed(void) {
    configure();
    cfg.ask_bodies = 1;
    cfg.max_per_host = 0;
    open_shard();
    for (int i = 0; i < 5; i++) {
        submit(0, 0);
    }
    hf_shard_take_inbox(s, &now);
    for (hf_request *r; (r = start_one()) != NULL;) {
        REQUIRE(hf_buf_append(&r->response->body, "bad", 3) == 0);
        play_end(s, r, HF_T_NONE);
    }
    CHECK_EQ(hf_stat_read(&s->counts.policy), 5);
    hf_shard_post_stop(s, now);
    hf_shard_take_inbox(s, &now);
    CHECK(read_all() && play_answered());
    play_close();
}

/* More outcomes than the event ring holds, and verdicts for all, asked about or not. */
static void verdicts_that_come_too_soon_harm_nothing(void) {
    configure();
    cfg.retry_types = ~(uint64_t)0;
    cfg.max_per_host = 0;
    cfg.max_concurrency = 5000;
    open_shard();
    for (int i = 0; i < 3000; i++) {
        submit(i % 7, 0);
    }
    hf_shard_take_inbox(s, &now);
    static hf_request *running[3000];
    int n = 0;
    while (n < 3000 && (running[n] = start_one()) != NULL) {
        n++;
    }
    CHECK_EQ(n, 3000);
    for (int i = 0; i < n; i++) {
        play_end(s, running[i], HF_T_TIMEOUT);
    }
    CHECK(s->unjudged.n > 0 && start_one() == NULL);
    for (uint64_t i = 0; i < 3000; i++) {
        hf_verdict v = verdict_for(i, i % 2 == 0, (int64_t)i);
        hf_shard_post_verdicts(s, &v, 1);
    }
    hf_shard_take_inbox(s, &now);
    CHECK_EQ(s->unjudged.n, 0);
    now += 10000;
    play_due(s);
    CHECK(read_all());
    hf_request *r;
    while ((r = start_one()) != NULL) {
        r->cancelled = true; /* final at once */
        play_end(s, r, HF_T_TIMEOUT);
        CHECK(read_all());
    }
    CHECK(play_answered());
    play_close();
}

/* --- everything at once ------------------------------------------------------------
 */

static uint64_t state;

static uint32_t dice(uint32_t n) {
    return fence_random(&state) % n;
}

static void abort_all(void) {
    hf_request *r;
    while ((r = s->running.first) != NULL) {
        hf_outcome_set(&r->outcome, r->cancelled ? HF_T_CANCELLED : HF_T_SHUTDOWN,
                       HF_P_BODY, HF_O_LOCAL, NULL);
        hf_shard_finish(s, r, now);
    }
}

static void abort_cancelled(void) {
    hf_request *next;
    for (hf_request *r = s->running.first; r != NULL; r = next) {
        next = r->next;
        if (r->cancelled) {
            hf_outcome_set(&r->outcome, HF_T_CANCELLED, HF_P_BODY, HF_O_LOCAL, NULL);
            hf_shard_finish(s, r, now);
        }
    }
}

static void random_step(void) {
    static const int types[] = {HF_T_NONE, HF_T_NONE, HF_T_TIMEOUT,
                                HF_T_CONNECT_REFUSED};
    hf_event ev[8];
    switch (dice(10)) {
    case 0:
    case 1:
        submit((int)dice(9), dice(4) == 0 ? 1 + dice(3000000) : 0);
        break;
    case 2:
    case 3:
        start_one();
        break;
    case 4:
    case 5:
        if (s->running.first != NULL) {
            play_end(s, dice(2) ? s->running.first : s->running.last, types[dice(4)]);
        }
        break;
    case 6:
        for (int i = 0, n = hf_slots_pop(&s->events, ev, 8); i < n; i++) {
            hf_verdict v = verdict_for(ev[i].seq, dice(3) != 0, dice(500000));
            hf_shard_post_verdicts(s, &v, 1);
        }
        break;
    case 7:
        if (dice(8) == 0) {
            hf_shard_post_cancel(s, dice((uint32_t)next_seq + 3));
        } else if (dice(8) == 0) {
            hf_verdict v = verdict_for(dice((uint32_t)next_seq + 3), dice(2) != 0, 5);
            hf_shard_post_verdicts(s, &v, 1);
        }
        break;
    case 8:
        now += dice(400000);
        play_due(s);
        break;
    default:
        if (dice(20) == 0) {
            play_read(s, note_line);
        }
        hf_shard_unpark(s, now);
    }
    if (dice(3) == 0 && hf_shard_take_inbox(s, &now)) {
        abort_cancelled();
    }
}

static void whatever_happens_each_is_answered_once(void) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        configure();
        cfg.retry_types = (uint64_t)1 << HF_T_TIMEOUT | (uint64_t)1 << HF_T_NONE;
        open_shard();
        state = seed * 7919;
        for (int i = 0; i < 20000; i++) {
            random_step();
        }
        hf_shard_post_stop(s, now);
        if (hf_shard_take_inbox(s, &now)) {
            abort_cancelled();
        }
        abort_all();
        CHECK(read_all());
        if (!CHECK(play_answered())) {
            fprintf(stderr, "    seed %llu\n", (unsigned long long)seed);
        }
        CHECK(cancelled_records > 0);
        play_close();
    }
}

static void without_reports_a_stop_leaves_them_unanswered(void) {
    configure();
    cfg.report_unanswered = 0;
    open_shard();
    for (int i = 0; i < 50; i++) {
        submit(i % 3, 0);
    }
    hf_shard_take_inbox(s, &now);
    hf_request *r = start_one();
    REQUIRE(r && start_one());
    play_end(s, r, HF_T_NONE);
    hf_shard_post_stop(s, now);
    hf_shard_take_inbox(s, &now);
    while (s->running.first != NULL) {
        hf_shard_abort(s, s->running.first, now);
    }
    submit(0, 0); /* too late */
    hf_shard_take_inbox(s, &now);
    CHECK(read_all());
    CHECK_EQ(records, 1);
    CHECK_EQ(hf_stat_read(&s->counts.dropped), 50);
    CHECK(hf_shard_idle(s));
    hf_shard_publish(s);
    CHECK_EQ(hf_load(&shared.outstanding, HF_SEQ_CST), 0);
    play_close();
}

static void what_is_held_is_freed_with_the_shard(void) {
    configure();
    cfg.retry_types = ~(uint64_t)0;
    open_shard();
    for (int i = 0; i < 40; i++) {
        submit(i % 5, 100);
    }
    hf_shard_take_inbox(s, &now);
    hf_request *r = start_one();
    REQUIRE(r && start_one());
    play_end(s, r, HF_T_TIMEOUT);
    submit(0, 0); /* still in the inbox */
    CHECK_EQ(s->held.n, 40);
    play_close(); /* LeakSanitizer says the rest */
}

int main(void) {
    RUN(a_request_goes_in_and_its_record_out);
    RUN(no_record_tells_of_a_time_before_its_request);
    RUN(what_starts_at_once_was_accepted_before);
    RUN(room_for_all_limits_is_made_at_the_start);
    RUN(a_full_ring_parks_in_order_and_stops_admission);
    RUN(policy_sees_what_it_asked_for_and_decides);
    RUN(policy_looks_at_bodies);
    RUN(bodies_that_nobody_looked_at_are_freed);
    RUN(verdicts_that_come_too_soon_harm_nothing);
    RUN(whatever_happens_each_is_answered_once);
    RUN(without_reports_a_stop_leaves_them_unanswered);
    RUN(what_is_held_is_freed_with_the_shard);
    return check_result();
}
