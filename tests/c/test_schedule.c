/* The backlog against a plain model: order per host, limits, turns, and memory. */
#include "check.h"
#include "fence.h"
#include "schedule.h"

enum { HOSTS = 7, REQUESTS = 400 };

static hf_config cfg;
static hf_heap heap;
static hf_schedule schedule;

typedef struct fake {
    hf_request r;
    char key[32];
    int host;
} fake;

static fake all[REQUESTS];

static void open_with(int32_t max_per_host) {
    hf_config_default(&cfg);
    cfg.max_per_host = max_per_host;
    heap = (hf_heap){NULL, 0, 0};
    REQUIRE(hf_schedule_init(&schedule, &cfg, &heap) == 0);
}

static void close_all(void) {
    hf_schedule_free(&schedule);
    hf_heap_free(&heap);
}

static fake *request(int i, int host) {
    fake *f = &all[i];
    memset(f, 0, sizeof *f);
    snprintf(f->key, sizeof f->key, "h%d:80", host);
    f->host = host;
    f->r.seq = (uint64_t)i;
    f->r.url.hostport = f->key;
    f->r.url.hostport_len = (uint32_t)strlen(f->key);
    return f;
}

static void push(fake *f) {
    REQUIRE(hf_schedule_push(&schedule, &f->r, false, 0) == 0);
}

static fake *pop_at(int64_t now) {
    bool refused = true;
    hf_request *r = hf_schedule_pop(&schedule, now, &refused);
    CHECK(!refused);
    return (fake *)(void *)r;
}

static void land(fake *f) {
    hf_pace_end end = {.type = HF_T_NONE, .status = 200};
    hf_schedule_landed(&schedule, &f->r, &end, 0);
}

static void hosts_take_turns_and_each_is_first_in_first_out(void) {
    open_with(0);
    for (int i = 0; i < 12; i++) {
        push(request(i, i / 4));
    }
    static const int want[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    for (int i = 0; i < 12; i++) {
        fake *f = pop_at(0);
        REQUIRE(f != NULL);
        CHECK_EQ(f->r.seq, want[i]);
    }
    CHECK(pop_at(0) == NULL);
    for (int i = 0; i < 12; i++) {
        land(&all[i]);
    }
    close_all();
}

/* Host 0 never answers, host 1 does: until the latter's backlog is through. */
static void a_host_that_does_not_answer_lets_others_go_first(void) {
    int hanging = 0;
    int before = 0; /* started of the hanging one before the other is through */
    open_with(0);
    for (int i = 0; i < 200; i++) {
        push(request(i, i % 2));
    }
    fake *f;
    while ((f = pop_at(0)) != NULL) {
        if (f->host == 1) {
            land(f);
            before = hanging;
        } else {
            hanging++;
        }
    }
    CHECK_EQ(hanging, 100);
    CHECK(before >= 8 + 92 / 8 && before <= 8 + 100 / 7);
    for (int i = 0; i < 200; i += 2) {
        land(&all[i]);
    }
    close_all();
}

static void a_full_host_blocks_no_other(void) {
    open_with(2);
    for (int i = 0; i < 100; i++) {
        push(request(i, 0));
    }
    push(request(100, 1));
    CHECK_EQ(pop_at(0)->r.seq, 0);
    CHECK_EQ(pop_at(0)->r.seq, 100);
    CHECK_EQ(pop_at(0)->r.seq, 1);
    CHECK(pop_at(0) == NULL);
    land(&all[1]);
    CHECK_EQ(pop_at(0)->r.seq, 2);
    CHECK(pop_at(0) == NULL);
    CHECK_EQ(schedule.queued, 97);
    while (hf_schedule_any(&schedule) != NULL) {
        hf_schedule_remove(&schedule, hf_schedule_any(&schedule), 0);
    }
    CHECK_EQ(schedule.queued, 0);
    close_all();
}

static void a_retry_goes_to_the_head_and_an_unpop_back_to_it(void) {
    open_with(0);
    push(request(0, 0));
    push(request(1, 0));
    fake *f = pop_at(0);
    hf_schedule_unpop(&schedule, &f->r, 0);
    CHECK(pop_at(0) == f);
    land(f);
    REQUIRE(hf_schedule_push(&schedule, &f->r, true, 0) == 0);
    CHECK(pop_at(0) == f);
    CHECK_EQ(pop_at(0)->r.seq, 1);
    close_all();
}

static void what_is_under_way_goes_before_what_may_lack_an_exit(void) {
    bool refused;
    open_with(0);
    for (int i = 0; i < 6; i++) {
        request(i, 0);
    }
    push(&all[0]);
    push(&all[1]);
    fake *f = pop_at(0);
    hf_schedule_unpop(&schedule, &f->r, 0); /* a new one that lacks an exit */
    all[2].r.n_attempts = 1;
    all[3].r.hopping = all[4].r.hopping = true;
    all[5].r.n_attempts = 1;
    for (int i = 2; i < 6; i++) {
        REQUIRE(hf_schedule_push(&schedule, &all[i].r, true, 0) == 0);
    }
    static const int order[] = {3, 4, 2, 5, 0, 1};
    for (int i = 0; i < 6; i++) {
        hf_request *r = hf_schedule_pop(&schedule, 0, &refused);
        REQUIRE(r == &all[order[i]].r);
        hf_schedule_unpop(&schedule, r, 0);
        REQUIRE(hf_schedule_pop(&schedule, 0, &refused) == r);
    }
    CHECK(hf_schedule_pop(&schedule, 0, &refused) == NULL);
    close_all();
}

/* A model of the queues: what each host must give next. */
typedef struct model {
    int queue[HOSTS][REQUESTS * 2];
    int first[HOSTS], last[HOSTS], flying[HOSTS];
} model;

static model m;

static int may_start(int limit) {
    for (int h = 0; h < HOSTS; h++) {
        if (m.first[h] < m.last[h] && (limit == 0 || m.flying[h] < limit)) {
            return 1;
        }
    }
    return 0;
}

static int pop_agrees(int limit) {
    fake *f = pop_at(0);
    if (f == NULL) {
        return !may_start(limit);
    }
    int h = f->host;
    int want = m.queue[h][m.first[h]++];
    m.flying[h]++;
    f->r.state = HF_R_RUNNING;
    return want == (int)f->r.seq && (limit == 0 || m.flying[h] <= limit);
}

static void random_work_agrees_with_a_model(void) {
    uint64_t random = 31337;
    for (int limit = 0; limit < 4; limit++) {
        open_with(limit);
        memset(&m, 0, sizeof m);
        int pushed = 0;
        int wrong = 0;
        for (int step = 0; step < 6000; step++) {
            int i = (int)(fence_random(&random) % REQUESTS);
            uint32_t what = fence_random(&random) % 4;
            if (what == 0 && pushed < REQUESTS) {
                fake *f = request(pushed, (int)(fence_random(&random) % HOSTS));
                push(f);
                m.queue[f->host][m.last[f->host]++] = pushed++;
            } else if (what == 1 && i < pushed && all[i].r.state == HF_R_RUNNING) {
                land(&all[i]);
                all[i].r.state = HF_R_PARKED;
                m.flying[all[i].host]--;
            } else if (what >= 2) {
                wrong += !pop_agrees(limit);
            }
        }
        CHECK_EQ(wrong, 0);
        close_all();
    }
}

static void a_delay_is_waited_for_in_the_heap(void) {
    hf_host_limits limits = {.pattern = "h0", .delay = 1000};
    open_with(8);
    cfg.host_limits = &limits;
    cfg.n_host_limits = 1;
    push(request(0, 0));
    push(request(1, 0));
    push(request(2, 1));
    CHECK_EQ(pop_at(5)->r.seq, 0);
    CHECK_EQ(pop_at(5)->r.seq, 2);
    CHECK(pop_at(5) == NULL);
    CHECK_EQ(hf_heap_next(&heap), 1005);
    hf_due *d = hf_heap_pop(&heap, 1005);
    REQUIRE(d != NULL && d->kind == HF_KIND_HOST);
    hf_schedule_due(&schedule, (hf_host *)(void *)((char *)d - offsetof(hf_host, due)));
    CHECK_EQ(pop_at(1005)->r.seq, 1);
    close_all();
}

static void hosts_that_are_done_do_not_pile_up(void) {
    open_with(8);
    for (int i = 0; i < 20000; i++) {
        fake *f = request(0, i);
        push(f);
        REQUIRE(pop_at(0) == f);
        land(f);
    }
    CHECK(schedule.hosts.n <= 1100);
    CHECK_EQ(schedule.hosts.n, schedule.hosts.n_idle);
    /* A host that comes back out of the idle list is served as any other. */
    fake *f = request(1, 19999);
    push(f);
    CHECK(pop_at(0) == f);
    close_all();
}

static fake *named(int i, const char *key) {
    fake *f = request(i, 0);
    snprintf(f->key, sizeof f->key, "%s", key);
    f->r.url.hostport_len = (uint32_t)strlen(f->key);
    push(f);
    return f;
}

static void one_looks_a_new_name_up_and_the_others_follow(void) {
    open_with(0);
    schedule.asks_names = true;
    for (int i = 0; i < 5; i++) {
        named(i, "a.test:80");
    }
    CHECK_EQ(pop_at(0)->r.seq, 0);
    CHECK(all[0].r.asks);
    CHECK(pop_at(0) == NULL);
    CHECK(pop_at(900000) == NULL);
    hf_schedule_named(&schedule, &all[0].r, true, 900000);
    CHECK(!all[0].r.asks);
    for (int i = 1; i < 5; i++) {
        CHECK_EQ(pop_at(900000)->r.seq, i);
        CHECK(!all[i].r.asks);
    }
    for (int i = 0; i < 5; i++) {
        land(&all[i]);
    }
    /* It is known for about a minute, then one asks again. */
    named(5, "a.test:80");
    named(6, "a.test:80");
    named(7, "a.test:80");
    CHECK_EQ(pop_at(59800000)->r.seq, 5);
    CHECK_EQ(pop_at(60000000)->r.seq, 6);
    CHECK(!all[5].r.asks && all[6].r.asks);
    CHECK(pop_at(60000000) == NULL);
    for (int i = 6; i >= 5; i--) {
        land(&all[i]);
    }
    CHECK_EQ(pop_at(60000001)->r.seq, 7);
    CHECK(!all[7].r.asks);
    land(&all[7]);
    close_all();
}

static void a_name_that_is_slow_or_unknown_holds_nobody_for_long(void) {
    open_with(0);
    schedule.asks_names = true;
    for (int i = 0; i < 4; i++) {
        named(i, "a.test:80");
    }
    CHECK_EQ(pop_at(0)->r.seq, 0);
    CHECK(pop_at(0) == NULL);
    CHECK(hf_heap_pop(&heap, 999999) == NULL);
    hf_due *due = hf_heap_pop(&heap, 1000000);
    REQUIRE(due == &all[0].r.host->due);
    hf_schedule_due(&schedule, all[0].r.host);
    CHECK_EQ(pop_at(1000000)->r.seq, 1);
    CHECK_EQ(pop_at(1000000)->r.seq, 2);
    CHECK(!all[1].r.asks);
    /* So does one that connected before the other family had answered. */
    hf_schedule_named(&schedule, &all[0].r, false, 1000000);
    CHECK(!all[0].r.asks);
    /* One that failed lets the others go as well. */
    for (int i = 0; i < 3; i++) {
        land(&all[i]);
    }
    CHECK_EQ(pop_at(1000000)->r.seq, 3);
    land(&all[3]);
    close_all();
}

static void who_needs_no_name_or_has_names_of_its_own_waits_for_nobody(void) {
    static const char *const addresses[] = {"127.0.0.1:80", "[::1]:80"};
    open_with(0);
    schedule.asks_names = true;
    for (int i = 0; i < 4; i++) {
        named(i, addresses[i / 2]);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pop_at(0) != NULL);
        CHECK(!all[i].r.asks);
    }
    named(4, "a.test:80");
    named(5, "a.test:80");
    all[4].r.session = all[5].r.session = (hf_slice){(const uint8_t *)"s", 1};
    CHECK_EQ(pop_at(0)->r.seq, 4);
    CHECK_EQ(pop_at(0)->r.seq, 5);
    schedule.asks_names = false;
    named(6, "b.test:80");
    named(7, "b.test:80");
    CHECK_EQ(pop_at(0)->r.seq, 6);
    CHECK_EQ(pop_at(0)->r.seq, 7);
    for (int i = 0; i < 8; i++) {
        CHECK(!all[i].r.asks);
        land(&all[i]);
    }
    close_all();
}

static void one_that_is_put_back_has_not_asked(void) {
    bool refused;
    open_with(0);
    schedule.asks_names = true;
    named(0, "1.2.3.4.test:80");
    named(1, "1.2.3.4.test:80");
    hf_request *r = hf_schedule_pop(&schedule, 0, &refused);
    REQUIRE(r == &all[0].r && r->asks);
    hf_schedule_unpop(&schedule, r, 0);
    CHECK(!r->asks);
    CHECK(pop_at(0) == &all[0]);
    CHECK(all[0].r.asks);
    CHECK(pop_at(0) == NULL);
    land(&all[0]);
    CHECK(pop_at(0) == &all[1]);
    land(&all[1]);
    close_all();
}

int main(void) {
    RUN(hosts_take_turns_and_each_is_first_in_first_out);
    RUN(a_host_that_does_not_answer_lets_others_go_first);
    RUN(a_full_host_blocks_no_other);
    RUN(a_retry_goes_to_the_head_and_an_unpop_back_to_it);
    RUN(what_is_under_way_goes_before_what_may_lack_an_exit);
    RUN(random_work_agrees_with_a_model);
    RUN(a_delay_is_waited_for_in_the_heap);
    RUN(hosts_that_are_done_do_not_pile_up);
    RUN(one_looks_a_new_name_up_and_the_others_follow);
    RUN(a_name_that_is_slow_or_unknown_holds_nobody_for_long);
    RUN(who_needs_no_name_or_has_names_of_its_own_waits_for_nobody);
    RUN(one_that_is_put_back_has_not_asked);
    return check_result();
}
