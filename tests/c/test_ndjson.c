#include "ndjson.h"

#include "base64.h"
#include "check.h"

static int is(const uint8_t *out, size_t n, const char *want) {
    if (n == strlen(want) && memcmp(out, want, n) == 0)
        return 1;
    fprintf(stderr, "got %.*s, not %s\n", (int)n, (const char *)out, want);
    return 0;
}

static void whole_numbers_are_written_to_their_ends(void) {
    uint8_t o[HF_JSON_NUMBER];
    CHECK(is(o, hf_json_u64(o, 0), "0"));
    CHECK(is(o, hf_json_u64(o, 10), "10"));
    CHECK(is(o, hf_json_u64(o, UINT64_MAX), "18446744073709551615"));
    CHECK(is(o, hf_json_i64(o, 0), "0"));
    CHECK(is(o, hf_json_i64(o, -1), "-1"));
    CHECK(is(o, hf_json_i64(o, INT64_MAX), "9223372036854775807"));
    CHECK(is(o, hf_json_i64(o, INT64_MIN), "-9223372036854775808"));
}

static void seconds_are_exact_and_have_one_digit_at_least(void) {
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {1, "0.000001"},
        {10, "0.00001"},
        {100000, "0.1"},
        {999999, "0.999999"},
        {1000000, "1.0"},
        {1500000, "1.5"},
        {1234567, "1.234567"},
        {10000001, "10.000001"},
        {-1, "-0.000001"},
        {-1500000, "-1.5"},
        {INT64_MAX, "9223372036854.775807"},
        {INT64_MIN, "-9223372036854.775808"},
    };
    uint8_t o[HF_JSON_NUMBER];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(is(o, hf_json_us_as_seconds(o, cases[i].us), cases[i].text));
}

static void times_are_rfc_3339_in_utc_with_milliseconds(void) {
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "\"1970-01-01T00:00:00.000Z\""},
        {999, "\"1970-01-01T00:00:00.000Z\""},
        {1000, "\"1970-01-01T00:00:00.001Z\""},
        {-1, "\"1969-12-31T23:59:59.999Z\""},
        {951782400000000, "\"2000-02-29T00:00:00.000Z\""},
        {1709251199999999, "\"2024-02-29T23:59:59.999Z\""},
        {1709251200000000, "\"2024-03-01T00:00:00.000Z\""},
        {1735689599000000, "\"2024-12-31T23:59:59.000Z\""},
        {4107542400000000, "\"2100-03-01T00:00:00.000Z\""},
        {253402300799999999, "\"9999-12-31T23:59:59.999Z\""},
        {INT64_MAX, "\"9999-12-31T23:59:59.999Z\""},
        {INT64_MIN, "\"0000-03-01T00:00:00.000Z\""},
    };
    uint8_t o[HF_JSON_NUMBER];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(is(o, hf_json_time(o, cases[i].us), cases[i].text));
}

static void bytes_become_utf8_where_they_are_and_latin1_elsewhere(void) {
    uint8_t o[256];
    CHECK(is(o, hf_json_string(o, (const uint8_t *)"a\"b", 3), "\"a\\\"b\""));
    CHECK(is(o, hf_json_bytes(o, (const uint8_t *)"", 0), "\"\""));
    CHECK(
        is(o, hf_json_bytes(o, (const uint8_t *)"caf\xc3\xa9", 5), "\"caf\xc3\xa9\""));
    CHECK(is(o, hf_json_bytes(o, (const uint8_t *)"caf\xe9\"\x85", 6),
             "\"caf\xc3\xa9\\\"\\u0085\""));
    CHECK(is(o, hf_json_base64(o, (const uint8_t *)"\xff\0", 2), "\"/wA=\""));
    CHECK(is(o, hf_json_base64(o, (const uint8_t *)"", 0), "\"\""));
}

int main(void) {
    RUN(whole_numbers_are_written_to_their_ends);
    RUN(seconds_are_exact_and_have_one_digit_at_least);
    RUN(times_are_rfc_3339_in_utc_with_milliseconds);
    RUN(bytes_become_utf8_where_they_are_and_latin1_elsewhere);
    return check_result();
}
