/* The table of exits: who is picked, how often, and by whom. */
#include "exits.h"

#include "check.h"
#include "err.h"

#define SECOND 1000000
enum { MOST = 64 };

static hf_exits exits;
static hf_exit_row rows[MOST];
static int n_rows;
static hf_pick pick;

static void begin(int n) {
    hf_exits_init(&exits);
    n_rows = n;
    for (int i = 0; i < n; i++) {
        rows[i] = (hf_exit_row){.number = i, .weight = 1};
        snprintf(rows[i].url, sizeof rows[i].url, "http://u:p@exit%d:1", i);
    }
}

static void apply(int64_t now) {
    CHECK_EQ(hf_exits_update(&exits, rows, n_rows, SECOND, 10 * SECOND, now), 0);
}

static hf_wish wish_for(const char *session, const char *host) {
    return (hf_wish){.session = (const uint8_t *)session,
                     .session_len = session != NULL ? strlen(session) : 0,
                     .host = host,
                     .host_len = strlen(host)};
}

/* The number of the exit picked, or -1. */
static int take(const char *session, int64_t now) {
    hf_wish w = wish_for(session, "site:80");
    return hf_exits_pick(&exits, &w, now, &pick) == 0 ? pick.number : -1;
}

static int take_for(const char *host, int64_t now) {
    hf_wish w = wish_for(NULL, host);
    return hf_exits_pick(&exits, &w, now, &pick) == 0 ? pick.number : -1;
}

static void give(int number, int news, int64_t now) {
    hf_exits_end(&exits, number, news, 1000, now);
}

static void prove_all(void) {
    hf_wish w = wish_for(NULL, "site:80");
    for (int i = 0; i < n_rows; i++) {
        hf_exits_start(&exits, i, &w, 0);
        give(i, HF_EXIT_ANSWERED, 0);
    }
}

static void end(void) {
    hf_exits_free(&exits);
}

static void an_empty_table_gives_nothing_and_says_so(void) {
    begin(0);
    CHECK(!hf_exits_active(&exits));
    apply(0);
    CHECK(hf_exits_active(&exits));
    CHECK_EQ(take(NULL, 0), -1);
    CHECK(pick.until == INT64_MAX);
    end();
}

static void load_is_shared_by_what_is_in_flight(void) {
    int counts[8] = {0};
    begin(8);
    apply(0);
    prove_all();
    for (int i = 0; i < 800; i++) {
        counts[take(NULL, 0)]++;
    }
    for (int i = 0; i < 8; i++) {
        CHECK(counts[i] > 80 && counts[i] < 120);
    }
    end();
}

static void twice_the_weight_is_twice_the_load(void) {
    int counts[2] = {0};
    begin(2);
    rows[1].weight = 2;
    apply(0);
    prove_all();
    for (int i = 0; i < 300; i++) {
        counts[take(NULL, 0)]++;
    }
    CHECK(counts[1] > 180 && counts[1] < 220);
    end();
}

static void an_exit_that_never_answered_gets_four_requests_and_no_more(void) {
    begin(2);
    rows[0].unproven = rows[1].unproven = 4;
    apply(0);
    for (int i = 0; i < 8; i++) {
        CHECK(take(NULL, 0) >= 0);
    }
    CHECK_EQ(take(NULL, 0), -1);
    give(1, HF_EXIT_FAILED, 0); /* no proof, and no room */
    CHECK_EQ(take(NULL, 0), -1);
    CHECK_EQ(take(NULL, 5 * SECOND), 1); /* that wears off */
    CHECK_EQ(take(NULL, 5 * SECOND), -1);
    give(0, HF_EXIT_ANSWERED, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(take(NULL, 0), 0);
    }
    end();
}

static void the_next_tier_waits_for_the_first_to_prove_itself(void) {
    begin(2);
    rows[0].unproven = rows[1].unproven = 4;
    rows[1].tier = 1;
    apply(0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(take(NULL, 0), 0);
    }
    CHECK_EQ(take(NULL, 0), -1); /* the first answer is near */
    give(0, HF_EXIT_FAILED, 0);
    CHECK_EQ(take(NULL, 0), 1); /* it was none */
    give(0, HF_EXIT_ANSWERED, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(take(NULL, 0), 0);
    }
    end();
}

static void one_that_fails_at_once_does_not_draw_the_requests(void) {
    int failed = 0;
    begin(4);
    apply(0);
    prove_all();
    for (int i = 0; i < 400; i++) {
        int number = take(NULL, i);
        give(number, number == 0 ? HF_EXIT_FAILED : HF_EXIT_NO_NEWS, i);
        failed += number == 0;
    }
    CHECK(failed < 20);
    end();
}

static void a_benched_exit_comes_back_by_one_probe(void) {
    begin(2);
    rows[0].state = HF_EXIT_BENCHED;
    rows[0].until = 5 * SECOND;
    apply(0);
    prove_all();
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(take(NULL, 5 * SECOND - 1), 1);
    }
    CHECK_EQ(take(NULL, 5 * SECOND), 0); /* before all others */
    CHECK(pick.probe);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(take(NULL, 6 * SECOND), 1);
        CHECK(!pick.probe);
    }
    give(0, HF_EXIT_FAILED, 7 * SECOND);
    CHECK_EQ(take(NULL, 7 * SECOND), 1); /* policy has a second to say what it is */
    CHECK_EQ(take(NULL, 8 * SECOND), 0);
    rows[0].state = HF_EXIT_UP;
    apply(8 * SECOND);
    int seen = 0;
    for (int i = 0; i < 20; i++) {
        seen += take(NULL, 8 * SECOND) == 0;
    }
    CHECK(seen > 5);
    end();
}

static void where_all_are_benched_it_tells_when_the_first_comes_back(void) {
    begin(2);
    rows[0].state = rows[1].state = HF_EXIT_BENCHED;
    rows[0].until = 9 * SECOND;
    rows[1].until = 4 * SECOND;
    apply(SECOND);
    CHECK_EQ(take(NULL, SECOND), -1);
    CHECK_EQ(pick.until, 5 * SECOND);
    CHECK_EQ(take("s", 5 * SECOND), 1);
    CHECK(pick.probe);
    CHECK_EQ(take(NULL, 5 * SECOND), -1);
    CHECK_EQ(pick.until, 10 * SECOND);
    end();
}

static void the_lowest_tier_serves_and_the_next_only_where_it_cannot(void) {
    begin(4);
    rows[2].tier = 1;
    rows[3].tier = 2;
    apply(0);
    for (int i = 0; i < 50; i++) {
        CHECK(take(NULL, 0) < 2);
    }
    rows[0].state = rows[1].state = HF_EXIT_BENCHED;
    rows[0].until = rows[1].until = 5 * SECOND;
    rows[2].state = HF_EXIT_BENCHED;
    rows[2].until = 0;
    apply(0);
    CHECK_EQ(take(NULL, 0), 2); /* a due probe, in its tier's turn */
    CHECK_EQ(take(NULL, 0), 3);
    CHECK_EQ(take(NULL, 5 * SECOND) < 2, 1);
    CHECK_EQ(take(NULL, 5 * SECOND) < 2, 1);
    CHECK_EQ(take(NULL, 5 * SECOND), 3);
    end();
}

static void an_exclusive_exit_serves_one_request_at_a_time(void) {
    begin(2);
    rows[0].exclusive = rows[1].exclusive = HF_LEASE_REQUEST;
    apply(0);
    int first = take(NULL, 0);
    int second = take(NULL, 0);
    CHECK_EQ(first + second, 1);
    CHECK_EQ(take(NULL, 0), -1);
    give(second, HF_EXIT_ANSWERED, 0);
    CHECK_EQ(take(NULL, 0), second);
    end();
}

static void a_session_waits_for_its_own_exclusive_exit(void) {
    begin(2);
    rows[0].exclusive = rows[1].exclusive = HF_LEASE_REQUEST;
    apply(0);
    int number = take("s", 0);
    CHECK_EQ(take("s", 0), -1);
    CHECK(pick.leased);
    CHECK_EQ(take(NULL, 0), 1 - number);
    give(number, HF_EXIT_ANSWERED, 0);
    CHECK_EQ(take("s", 0), number);
    end();
}

static void an_exit_leased_by_a_session_serves_no_other(void) {
    begin(2);
    rows[0].exclusive = rows[1].exclusive = HF_LEASE_SESSION;
    apply(0);
    int mine = take("a", 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(take("a", 0), mine);
        CHECK_EQ(take("b", 0), 1 - mine);
    }
    CHECK_EQ(take("c", 0), -1);
    CHECK_EQ(take(NULL, 0), -1);
    CHECK(take("c", 10 * SECOND) >= 0); /* the lease ends with the session's time */
    end();
}

static void a_session_keeps_its_exit_for_its_time_from_the_first_use(void) {
    begin(16);
    apply(0);
    int number = take("s", 0);
    for (int64_t now = 0; now < 10 * SECOND; now += SECOND / 4) {
        CHECK_EQ(take("s", now), number);
    }
    int others = 0;
    for (int i = 1; i <= 20; i++) {
        others += take("s", (int64_t)i * 10 * SECOND) != number;
    }
    CHECK(others > 10);
    end();
}

static void a_session_leaves_an_exit_that_is_benched_or_that_policy_left(void) {
    begin(3);
    apply(0);
    int number = take("s", 0);
    rows[number].state = HF_EXIT_BENCHED;
    rows[number].until = SECOND;
    apply(0);
    int next = take("s", 0);
    CHECK(next != number);
    CHECK_EQ(take("s", 2 * SECOND), next);
    int chosen = 3 - number - next;
    hf_wish w = wish_for("s", "site:80");
    hf_exits_start(&exits, chosen, &w, 3 * SECOND);
    CHECK_EQ(take("s", 3 * SECOND), chosen);
    end();
}

static void many_sessions_keep_apart(void) {
    static int first[5000];
    char name[16];
    begin(MOST);
    apply(0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof name, "s%d", i);
            int number = take(name, round);
            if (round == 0) {
                first[i] = number;
            } else {
                CHECK_EQ(number, first[i]);
            }
        }
    }
    end();
}

static void a_host_that_refuses_an_exit_is_kept_off_it(void) {
    begin(2);
    apply(0);
    hf_exits_avoid(&exits, "shop:443", 0, 0, SECOND, 0);
    int other = 0;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(take_for("shop:443", 0), 1);
        other += take_for("else:443", 0) == 0;
    }
    CHECK(other > 5);
    rows[1].state = HF_EXIT_BENCHED;
    rows[1].until = 60 * SECOND;
    apply(0);
    CHECK_EQ(take_for("shop:443", 0), 0); /* better than none */
    end();
}

static void a_host_that_refuses_a_tier_starts_at_the_next(void) {
    begin(2);
    rows[1].tier = 1;
    apply(0);
    hf_exits_avoid(&exits, "shop:443", -1, 1, SECOND, 0);
    CHECK_EQ(take_for("shop:443", 0), 1);
    CHECK_EQ(take_for("else:443", 0), 0);
    CHECK_EQ(take_for("shop:443", SECOND), 0);
    hf_exits_avoid(&exits, "shop:443", -1, 1, 9 * SECOND, SECOND);
    rows[1].state = HF_EXIT_BENCHED;
    rows[1].until = 60 * SECOND;
    apply(SECOND);
    CHECK_EQ(take_for("shop:443", SECOND), 0); /* down again rather than nowhere */
    end();
}

static void failures_of_a_host_over_an_exit_count_until_it_is_served(void) {
    hf_wish shop = wish_for(NULL, "shop:443");
    hf_wish other = wish_for(NULL, "else:443");
    begin(1);
    apply(0);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, true, 0), 0);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, false, 0), 1);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, false, 1), 2);
    CHECK_EQ(hf_exits_pair(&exits, 0, &other, false, 1), 1);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, true, 2), 0);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, false, 3), 1);
    CHECK_EQ(hf_exits_pair(&exits, 0, &other, false, 3), 2);
    CHECK_EQ(hf_exits_pair(&exits, 0, &shop, false, 100 * SECOND), 1);
    end();
}

static void a_new_exit_is_tried_beside_quick_ones(void) {
    int fresh = 0;
    begin(3);
    apply(0);
    prove_all();
    rows[3] = rows[0];
    rows[3].number = n_rows++;
    apply(0);
    for (int i = 0; i < 100; i++) {
        int number = take(NULL, 0);
        fresh += number == 3;
        give(number, HF_EXIT_ANSWERED, 0);
    }
    CHECK(fresh > 5);
    end();
}

static void rows_come_and_go_while_requests_are_in_flight(void) {
    begin(3);
    apply(0);
    CHECK(take(NULL, 0) >= 0);
    int number = pick.number;
    rows[number].state = HF_EXIT_GONE;
    apply(0);
    for (int i = 0; i < 10; i++) {
        CHECK(take(NULL, 0) != number);
    }
    give(number, HF_EXIT_ANSWERED, 0);
    give(number, HF_EXIT_ANSWERED, 0); /* an unknown number is passed over */
    hf_exit_stats stats[MOST];
    apply(0);
    CHECK_EQ(hf_exits_stats(&exits, stats, MOST), 2);
    end();
}

static void it_counts_what_an_exit_did(void) {
    hf_exit_stats stats[2];
    begin(1);
    apply(0);
    CHECK_EQ(hf_exits_quiet(&exits, 0, SECOND), -1);
    take(NULL, 0);
    take(NULL, 0);
    hf_exits_end(&exits, 0, HF_EXIT_ANSWERED, 200000, SECOND);
    CHECK_EQ(hf_exits_quiet(&exits, 0, 3 * SECOND), 2 * SECOND);
    CHECK_EQ(hf_exits_quiet(&exits, 0, SECOND / 2), 0); /* a clock behind ours */
    hf_exits_end(&exits, 0, HF_EXIT_SUSPECT, 900000, 4 * SECOND);
    CHECK_EQ(hf_exits_stats(&exits, stats, 2), 1);
    CHECK_EQ(stats[0].started, 2);
    CHECK_EQ(stats[0].answered, 1);
    CHECK_EQ(stats[0].in_flight, 0);
    CHECK_EQ(stats[0].latency, 900000); /* silence is no speed */
    end();
}

/* Policy does not know who has leased what meanwhile. */
static void an_exit_that_policy_named_is_not_taken_from_another(void) {
    static const int leases[] = {HF_LEASE_NONE, HF_LEASE_REQUEST, HF_LEASE_SESSION};
    for (int i = 0; i < 3; i++) {
        hf_exits x;
        hf_wish mine = {(const uint8_t *)"mine", 4, "a:80", 4};
        hf_wish other = {(const uint8_t *)"other", 5, "a:80", 4};
        hf_exit_row row = {.number = 7, .exclusive = leases[i], .weight = 1};
        memcpy(row.url, "http://h:1", 11);
        hf_exits_init(&x);
        REQUIRE(hf_exits_update(&x, &row, 1, 1000, 1000, 10) == 0);
        REQUIRE(hf_exits_pick(&x, &mine, 20, &pick) == 0);
        CHECK(hf_exits_start(&x, 7, &other, 30) == (leases[i] == HF_LEASE_NONE));
        CHECK(hf_exits_start(&x, 7, &mine, 40) == (leases[i] != HF_LEASE_REQUEST));
        CHECK(!hf_exits_start(&x, 8, &other, 50)); /* it is gone */
        hf_exits_free(&x);
    }
}

/* A request that waits between two hosts leaves its exit to others, unless that serves
 * one at a time. */
static void an_exit_rests_between_two_hops(void) {
    static const int leases[] = {HF_LEASE_NONE, HF_LEASE_REQUEST};
    for (int i = 0; i < 2; i++) {
        hf_exits x;
        hf_exit_stats st;
        hf_wish wish = {.host = "a:80", .host_len = 4};
        hf_exit_row row = {.number = 7, .exclusive = leases[i], .weight = 1};
        memcpy(row.url, "http://h:1", 11);
        hf_exits_init(&x);
        REQUIRE(hf_exits_update(&x, &row, 1, 1000, 0, 10) == 0);
        REQUIRE(hf_exits_pick(&x, &wish, 20, &pick) == 0);
        bool taken = hf_exits_rest(&x, 7, 5, 25);
        CHECK(taken == (leases[i] == HF_LEASE_REQUEST));
        CHECK((hf_exits_pick(&x, &wish, 30, &pick) == 0) == !taken);
        REQUIRE(hf_exits_stats(&x, &st, 1) == 1);
        CHECK(st.in_flight == 1 && st.answered == 1);
        hf_exits_end(&x, 7, HF_EXIT_NO_NEWS, 0, 40);
        CHECK(hf_exits_pick(&x, &wish, 50, &pick) == 0);
        CHECK(!hf_exits_rest(&x, 8, 5, 60)); /* which is not there */
        hf_exits_free(&x);
    }
}

int main(void) {
    RUN(an_exit_rests_between_two_hops);
    RUN(an_exit_that_policy_named_is_not_taken_from_another);
    RUN(an_empty_table_gives_nothing_and_says_so);
    RUN(load_is_shared_by_what_is_in_flight);
    RUN(twice_the_weight_is_twice_the_load);
    RUN(an_exit_that_never_answered_gets_four_requests_and_no_more);
    RUN(the_next_tier_waits_for_the_first_to_prove_itself);
    RUN(one_that_fails_at_once_does_not_draw_the_requests);
    RUN(a_benched_exit_comes_back_by_one_probe);
    RUN(where_all_are_benched_it_tells_when_the_first_comes_back);
    RUN(the_lowest_tier_serves_and_the_next_only_where_it_cannot);
    RUN(an_exclusive_exit_serves_one_request_at_a_time);
    RUN(a_session_waits_for_its_own_exclusive_exit);
    RUN(an_exit_leased_by_a_session_serves_no_other);
    RUN(a_session_keeps_its_exit_for_its_time_from_the_first_use);
    RUN(a_session_leaves_an_exit_that_is_benched_or_that_policy_left);
    RUN(many_sessions_keep_apart);
    RUN(a_host_that_refuses_an_exit_is_kept_off_it);
    RUN(a_host_that_refuses_a_tier_starts_at_the_next);
    RUN(failures_of_a_host_over_an_exit_count_until_it_is_served);
    RUN(a_new_exit_is_tried_beside_quick_ones);
    RUN(rows_come_and_go_while_requests_are_in_flight);
    RUN(it_counts_what_an_exit_did);
    return check_result();
}
