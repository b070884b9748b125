/* Redirects over several shards without loops, in virtual time: every host keeps its
 * limits, whichever shard asks it, and every request comes out once. */
#define PLAY_SHARDS 3
#include "shard_play.h"

#include "shard_hop.h"

enum { SHARDS = PLAY_SHARDS, HOSTS = 12, PER_HOST = 2 };

static uint64_t by_type[HF_T_COUNT];
static uint64_t state;

static uint32_t dice(uint32_t n) {
    return fence_random(&state) % n;
}

static void open_shards(void) {
    play_open();
    memset(by_type, 0, sizeof by_type);
}

static void configure(void) {
    hf_config_default(&cfg);
    cfg.report_unanswered = 1;
    cfg.max_per_host = PER_HOST;
    cfg.max_concurrency = 12;
}

static void url_of(int host, char *out, size_t cap) {
    snprintf(out, cap, "http://10.0.0.%d/%d", host, (int)dice(1000000));
}

static hf_shard *shard_of_host(int host) {
    char key[32];
    int n = snprintf(key, sizeof key, "10.0.0.%d:80", host);
    return &shards[hf_shard_of(&shared, key, (size_t)n)];
}

static hf_request *submit(int host, int64_t deadline) {
    char line[64];
    url_of(host, line, sizeof line);
    return play_submit(shard_of_host(host), line, deadline);
}

static int type_of(const uint8_t *line, size_t n) {
    for (int t = 1; t < HF_T_COUNT; t++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", hf_name_type(t));
        if (json_has(line, n, "error.type", quoted)) {
            return t;
        }
    }
    return HF_T_NONE;
}

static void note_line(const uint8_t *line, size_t n) {
    by_type[type_of(line, n)]++;
}

/* No host has anything in flight: each start was given back. */
static int hosts_at_rest(void) {
    int busy = 0;
    for (int i = 0; i < SHARDS; i++) {
        for (int h = 0; h < HOSTS; h++) {
            char key[32];
            int n = snprintf(key, sizeof key, "10.0.0.%d:80", h);
            const hf_host *host =
                hf_schedule_host(&shards[i].schedule, key, (uint32_t)n, now);
            busy += host->in_flight + host->queued;
        }
    }
    return busy == 0;
}

/* What all shards have under way to one host. */
static int in_flight(int host) {
    char key[32];
    int count = 0;
    snprintf(key, sizeof key, "10.0.0.%d:80", host);
    for (int i = 0; i < SHARDS; i++) {
        for (hf_request *r = shards[i].running.first; r != NULL; r = r->next) {
            count += strcmp(hf_request_url(r)->hostport, key) == 0;
        }
    }
    return count;
}

/* The running request is redirected to another URL, maybe of the same host. */
static void redirect(hf_shard *s, hf_request *r, int host) {
    char text[64];
    url_of(host, text, sizeof text);
    hf_url next;
    hf_errbuf none = {NULL, 0};
    REQUIRE(hf_url_parse(&settings.curl, (const uint8_t *)text, strlen(text), &next,
                         none) == 0);
    r->response->status = 302;
    REQUIRE(hf_response_hop(r->response, hf_request_url(r)->shown, true,
                            (const uint8_t *)text, strlen(text)) == 0);
    hf_url_free(&r->response->final);
    r->response->final = next;
    hf_outcome_ok(&r->outcome);
    if (!hf_shard_stays(s, r, now)) {
        hf_shard_leave(s, r, now);
    } else {
        hf_response_new_hop(r->response);
    }
}

static hf_request *start_one(hf_shard *s) {
    hf_request *r = hf_shard_next(s, now);
    if (r != NULL) {
        int64_t soft = r->attempt_start + 10000000;
        hf_heap_set(&s->heap, &r->due, soft < r->job_due ? soft : r->job_due);
    }
    return r;
}

static void abort_running(hf_shard *s, bool all) {
    hf_request *next;
    for (hf_request *r = s->running.first; r != NULL; r = next) {
        next = r->next;
        if (all || r->cancelled) {
            play_end(s, r, HF_T_CANCELLED);
        }
    }
}

static void take_inbox(hf_shard *s) {
    if (hf_shard_take_inbox(s, &now)) {
        abort_running(s, false);
    }
}

/* Lets tickets travel until none does. */
static void take_all(void) {
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < SHARDS; i++) {
            take_inbox(&shards[i]);
            hf_shard_unpark(&shards[i], now);
            play_read(&shards[i], note_line);
        }
    }
}

/* Two hosts of different shards. */
static void pick_apart(int *a, int *b) {
    *a = 0;
    for (*b = 1; shard_of_host(*b) == shard_of_host(*a); (*b)++) {
        REQUIRE(*b < HOSTS);
    }
}

static void a_hop_waits_for_its_turn_at_another_shards_host(void) {
    int a;
    int b;
    configure();
    open_shards();
    pick_apart(&a, &b);
    hf_shard *home = shard_of_host(a);
    hf_shard *other = shard_of_host(b);
    submit(b, 0);
    submit(b, 0);
    hf_request *r = submit(a, 0);
    take_all();
    hf_request *first = start_one(other);
    REQUIRE(first && start_one(other) && start_one(home) == r);
    now += 700;
    redirect(home, r, b);
    CHECK_EQ(hf_load(&shared.in_flight, HF_SEQ_CST), 2); /* it holds nothing now */
    take_all();
    CHECK(start_one(other) == NULL);
    take_all();
    CHECK(start_one(home) == NULL);
    now += 5000;
    play_end(other, first, HF_T_NONE);
    CHECK(start_one(other) == NULL); /* the turn is given to the ticket */
    take_all();
    REQUIRE(start_one(home) == r);
    CHECK_EQ(now - r->attempt_start, 700); /* the wait is not the attempt's */
    CHECK_EQ(r->wait, 5000);
    submit(b, 0);
    take_all();
    CHECK(start_one(other) == NULL);
    play_end(home, r, HF_T_NONE);
    take_all();
    REQUIRE(start_one(other));
    abort_running(other, true);
    take_all();
    CHECK(play_answered() && hosts_at_rest());
    CHECK_EQ(hf_stat_read(&home->counts.started), 1);
    play_close();
}

static void a_hop_to_the_same_host_goes_on_at_once(void) {
    configure();
    open_shards();
    hf_shard *s = shard_of_host(0);
    hf_request *r = submit(0, 0);
    take_all();
    REQUIRE(start_one(s) == r);
    redirect(s, r, 0);
    CHECK(r->state == HF_R_RUNNING && in_flight(0) == 1);
    play_end(s, r, HF_T_NONE);
    take_all();
    CHECK(play_answered() && hosts_at_rest());
    play_close();
}

/* Three slots are free; what has begun gets them before what has not. */
static void what_is_under_way_goes_on_first(void) {
    configure();
    cfg.max_per_host = 3;
    open_shards();
    hf_shard *s = shard_of_host(0);
    int other = 1;
    while (shard_of_host(other) != s) {
        other++;
    }
    hf_request *r[6];
    for (int i = 0; i < 6; i++) {
        r[i] = submit(0, 0);
    }
    take_all();
    for (int i = 0; i < 3; i++) {
        REQUIRE(start_one(s) == r[i]);
    }
    for (int i = 0; i < 3; i++) {
        redirect(s, r[i], other);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(start_one(s) == r[i]); /* in the order in which they came */
    }
    CHECK(start_one(s) == r[3]);
    abort_running(s, true);
    hf_shard_post_stop(s, now);
    take_all();
    CHECK(play_answered() && hosts_at_rest());
    play_close();
}

/* Whatever ends the wait, the host gets its place back and the record has the hop. */
static void a_wait_can_end_in_every_way(void) {
    static const int ways = 5;
    int a;
    int b;
    for (int way = 0; way < ways; way++) {
        configure();
        open_shards();
        pick_apart(&a, &b);
        hf_shard *home = shard_of_host(a);
        hf_shard *other = shard_of_host(b);
        hf_request *r = submit(a, way == 0 ? 900000 : 0);
        take_all();
        REQUIRE(start_one(home) == r);
        redirect(home, r, b);
        switch (way) {
        case 0: /* the job's deadline, while the ticket is queued */
            take_all();
            now += 1000000;
            play_due(home);
            break;
        case 1: /* cancelled before the ticket has come there */
            hf_shard_post_cancel(home, 0);
            break;
        case 2: /* cancelled while it is on its way home */
            take_inbox(other);
            CHECK(start_one(other) == NULL);
            hf_shard_post_cancel(home, 0);
            break;
        case 3: /* cancelled when it is lent */
            take_all();
            CHECK(start_one(other) == NULL);
            take_inbox(home);
            hf_shard_post_cancel(home, 0);
            break;
        default: /* the host's shard stops first */
            hf_shard_post_stop(other, now);
        }
        take_all();
        CHECK(start_one(other) == NULL && start_one(home) == NULL);
        take_all();
        CHECK(play_answered() && hosts_at_rest());
        int type = way == 0 ? HF_T_DEADLINE : way < 4 ? HF_T_CANCELLED : HF_T_SHUTDOWN;
        CHECK_EQ(by_type[type], 1);
        play_close();
    }
}

static void policy_is_asked_where_hops_are_to_be_judged(void) {
    int a;
    int b;
    configure();
    cfg.ask_hops = 1;
    open_shards();
    pick_apart(&a, &b);
    hf_shard *home = shard_of_host(a);
    hf_event ev[2];
    for (int follow = 0; follow < 2; follow++) {
        hf_request *r = submit(a, 0);
        take_all();
        REQUIRE(start_one(home) == r);
        redirect(home, r, follow ? b : a);
        REQUIRE(hf_slots_pop(&home->events, ev, 2) == 1);
        CHECK((ev[0].flags & HF_EV_HOP) != 0 && ev[0].attempt == 1);
        CHECK_TEXT(ev[0].url, hf_request_url(r)->shown);
        hf_verdict v = {.seq = ev[0].seq, .retry = follow, .exit = -1};
        v.type = follow ? 0 : HF_T_ROBOTS_DENIED;
        hf_event_clear(&ev[0]);
        hf_shard_post_verdicts(home, &v, 1);
        take_all();
        if (follow) {
            CHECK(start_one(shard_of_host(b)) == NULL);
            take_all();
            REQUIRE(start_one(home) == r);
            play_end(home, r, HF_T_NONE);
        }
        take_all();
    }
    CHECK(play_answered() && hosts_at_rest());
    CHECK_EQ(by_type[HF_T_ROBOTS_DENIED], 1);
    CHECK_EQ(by_type[HF_T_NONE], 1);
    submit(a, 0);
    take_all();
    hf_request *r = start_one(home);
    REQUIRE(r);
    redirect(home, r, b); /* its event is freed with the shard */
    play_close();
}

static void retry_or_not(hf_shard *s) {
    hf_event ev[8];
    for (int i = 0, n = hf_slots_pop(&s->events, ev, 8); i < n; i++) {
        hf_verdict v = {.seq = ev[i].seq, .retry = dice(3) != 0, .exit = -1};
        v.delay = dice(500000);
        v.type = HF_T_ROBOTS_DENIED;
        hf_event_clear(&ev[i]);
        for (int k = 0; k < SHARDS; k++) {
            hf_shard_post_verdicts(&shards[k], &v, 1);
        }
    }
}

static void random_step(void) {
    static const int types[] = {HF_T_NONE, HF_T_NONE, HF_T_TIMEOUT,
                                HF_T_CONNECT_REFUSED};
    hf_shard *s = &shards[dice(SHARDS)];
    hf_request *r = dice(2) ? s->running.first : s->running.last;
    switch (dice(9)) {
    case 0:
        submit((int)dice(HOSTS), dice(4) == 0 ? 1 + dice(3000000) : 0);
        break;
    case 1:
    case 2:
        start_one(s);
        break;
    case 3:
        if (r != NULL) {
            play_end(s, r, types[dice(4)]);
        }
        break;
    case 4:
    case 5:
        if (r != NULL && r->response->n_hops < 5) {
            redirect(s, r, (int)dice(HOSTS));
        }
        break;
    case 6:
        retry_or_not(s);
        break;
    case 7:
        now += dice(100000);
        play_due(s);
        break;
    default:
        for (int k = 0; k < SHARDS && dice(40) == 0; k++) {
            hf_shard_post_cancel(&shards[k], dice((uint32_t)next_seq + 3));
        }
        hf_shard_unpark(s, now);
        play_read(s, note_line);
    }
    if (dice(3) == 0) {
        take_inbox(s);
    }
}

static void whatever_happens_limits_hold_and_each_is_answered_once(void) {
    uint64_t ended[HF_T_COUNT] = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        configure();
        cfg.ask_hops = seed % 2 != 0;
        cfg.retry_types = (uint64_t)1 << HF_T_TIMEOUT;
        open_shards();
        state = seed * 7919;
        for (int i = 0; i < 20000; i++) {
            random_step();
            for (int h = 0; h < HOSTS && i % 16 == 0; h++) {
                CHECK(in_flight(h) <= PER_HOST);
            }
        }
        for (int i = 0; i < SHARDS; i++) {
            hf_shard_post_stop(&shards[i], now);
            take_inbox(&shards[i]);
            abort_running(&shards[i], true);
        }
        take_all();
        if (!CHECK(play_answered()) || !CHECK(hosts_at_rest())) {
            fprintf(stderr, "    seed %llu\n", (unsigned long long)seed);
        }
        for (int t = 0; t < HF_T_COUNT; t++) {
            ended[t] += by_type[t];
        }
        play_close();
    }
    CHECK(ended[HF_T_NONE] > 0 && ended[HF_T_CANCELLED] > 0);
    CHECK(ended[HF_T_DEADLINE] > 0 && ended[HF_T_ROBOTS_DENIED] > 0);
}

/* Tickets wherever they may be: LeakSanitizer says the rest. */
static void what_travels_is_freed_with_the_shards(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        configure();
        open_shards();
        state = seed * 104729;
        for (int i = 0; i < 400; i++) {
            random_step();
        }
        play_close();
    }
}

int main(void) {
    RUN(a_hop_waits_for_its_turn_at_another_shards_host);
    RUN(a_hop_to_the_same_host_goes_on_at_once);
    RUN(what_is_under_way_goes_on_first);
    RUN(a_wait_can_end_in_every_way);
    RUN(policy_is_asked_where_hops_are_to_be_judged);
    RUN(whatever_happens_limits_hold_and_each_is_answered_once);
    RUN(what_travels_is_freed_with_the_shards);
    return check_result();
}
