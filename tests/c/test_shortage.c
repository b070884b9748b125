#include "shortage.h"

#include "check.h"
#include "err.h"

#define MS 1000
#define S 1000000

static void a_shortage_lowers_the_cap_to_what_fits(void) {
    hf_shortage s;
    hf_put_off r = {0};
    hf_shortage_init(&s);
    CHECK(s.cap == UINT64_MAX);
    CHECK_EQ(hf_shortage_meet(&s, &r, 40, S), 50 * MS);
    CHECK_EQ((int64_t)s.cap, 40);
    hf_shortage_meet(&s, &r, 60, S);
    CHECK_EQ((int64_t)s.cap, 40);
    hf_shortage_meet(&s, &r, 0, S);
    CHECK_EQ((int64_t)s.cap, 1);
}

static void the_cap_doubles_while_all_goes_well(void) {
    hf_shortage s;
    hf_put_off r = {0};
    int64_t now = S;
    hf_shortage_init(&s);
    hf_shortage_meet(&s, &r, 3, now);
    hf_shortage_pass(&s, now + 249 * MS);
    CHECK_EQ((int64_t)s.cap, 3);
    hf_shortage_pass(&s, now += 250 * MS);
    CHECK_EQ((int64_t)s.cap, 6);
    for (int i = 0; i < 40; i++) {
        hf_shortage_pass(&s, now += 250 * MS);
    }
    CHECK(s.cap == UINT64_MAX);
}

static void a_request_waits_longer_each_time(void) {
    hf_shortage s;
    hf_put_off r = {0};
    int64_t last = 0;
    hf_shortage_init(&s);
    for (int i = 0; i < 8; i++) {
        int64_t wait = hf_shortage_meet(&s, &r, 1, S);
        CHECK(wait >= last && wait <= 1600 * MS);
        last = wait;
    }
    CHECK_EQ(last, 1600 * MS);
}

static void it_is_the_last_word_when_nothing_goes_or_one_has_waited_long(void) {
    hf_shortage s;
    hf_put_off r = {0};
    hf_put_off other = {0};
    hf_shortage_init(&s);
    CHECK(hf_shortage_meet(&s, &r, 0, S) > 0);
    CHECK(hf_shortage_meet(&s, &other, 0, 15 * S) > 0);
    CHECK_EQ(hf_shortage_meet(&s, &other, 0, 16 * S), -1);
    CHECK(hf_shortage_meet(&s, &other, 1, 16 * S) > 0);
    hf_shortage_pass(&s, 17 * S);
    CHECK(hf_shortage_meet(&s, &r, 0, 18 * S) > 0);
    CHECK_EQ(hf_shortage_meet(&s, &r, 5, 91 * S), -1);
}

static void only_two_types_are_one(void) {
    int found = 0;
    for (int type = 0; type < HF_T_COUNT; type++) {
        found += hf_shortage_is(type);
    }
    CHECK_EQ(found, 2);
    CHECK(hf_shortage_is(HF_T_TOO_MANY_OPEN_FILES));
    CHECK(hf_shortage_is(HF_T_LOCAL_PORT_EXHAUSTED));
    CHECK(!hf_shortage_of_descriptors());
}

int main(void) {
    RUN(a_shortage_lowers_the_cap_to_what_fits);
    RUN(the_cap_doubles_while_all_goes_well);
    RUN(a_request_waits_longer_each_time);
    RUN(it_is_the_last_word_when_nothing_goes_or_one_has_waited_long);
    RUN(only_two_types_are_one);
    return check_result();
}
