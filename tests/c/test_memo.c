/* The bounded memory. */
#include "memo.h"

#include "check.h"

static void what_was_put_is_there_until_its_time(void) {
    hf_memo m = {0};
    CHECK_EQ(hf_memo_get(&m, 7, 0), -1);
    hf_memo_put(&m, 7, 3, 100, 0);
    CHECK_EQ(hf_memo_get(&m, 7, 99), 3);
    CHECK_EQ(hf_memo_get(&m, 7, 100), -1);
    hf_memo_put(&m, 7, 4, 300, 200);
    hf_memo_put(&m, 7, 5, 200, 200);
    CHECK_EQ(hf_memo_get(&m, 7, 200), -1);
    hf_memo_free(&m);
}

static void forgetting_what_is_not_there_takes_no_memory(void) {
    hf_memo m = {0};
    hf_memo_put(&m, 7, 3, 5, 5);
    CHECK(m.entries == NULL);
    hf_memo_put(&m, 1, 1, 9, 0);
    hf_memo_put(&m, 2, 1, 0, 0);
    CHECK_EQ(hf_memo_get(&m, 1, 0), 1);
    CHECK_EQ(hf_memo_get(&m, 2, 0), -1);
    hf_memo_free(&m);
}

static void a_full_memory_forgets_what_ends_first(void) {
    hf_memo m = {0};
    const int n = 4 * HF_MEMO_ENTRIES;
    for (int i = 0; i < n; i++) {
        uint64_t key = hf_memo_hash(HF_MEMO_SEED, &i, sizeof i);
        hf_memo_put(&m, key, i, 1000 + i, 0);
    }
    int newest = 0;
    int oldest = 0;
    for (int i = 0; i < n / 8; i++) {
        int j = n - 1 - i;
        oldest += hf_memo_get(&m, hf_memo_hash(HF_MEMO_SEED, &i, sizeof i), 0) >= 0;
        newest += hf_memo_get(&m, hf_memo_hash(HF_MEMO_SEED, &j, sizeof j), 0) == j;
    }
    CHECK(newest > n / 8 * 9 / 10);
    CHECK(oldest < n / 8 / 100);
    hf_memo_free(&m);
}

static void a_hash_tells_each_change_and_length(void) {
    uint8_t bytes[41] = {0};
    uint64_t before = 0;
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint64_t sum = hf_memo_hash(HF_MEMO_SEED, bytes, n);
        CHECK(sum != before);
        before = sum;
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK(hf_memo_hash(HF_MEMO_SEED, bytes, n) != sum);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    CHECK(hf_memo_hash(hf_memo_hash(HF_MEMO_SEED, "ab", 2), "c", 1) !=
          hf_memo_hash(hf_memo_hash(HF_MEMO_SEED, "ba", 2), "c", 1));
}

/* Names of all lengths that differ in the last digits alone fill the sets alike. */
static void names_in_a_row_are_spread(void) {
    char name[64];
    for (int prefix = 1; prefix < 40; prefix++) {
        hf_memo m = {0};
        int kept = 0;
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < 10000; i++) {
                int n = snprintf(name, sizeof name, "%0*d%04d", prefix, 0, i);
                uint64_t key = hf_memo_hash(HF_MEMO_SEED, name, (size_t)n);
                if (turn == 0) {
                    hf_memo_put(&m, key, i, 1, 0);
                } else {
                    kept += hf_memo_get(&m, key, 0) == i;
                }
            }
        }
        CHECK(kept > 9900); /* of 32768 places in sets of eight */
        hf_memo_free(&m);
    }
}

int main(void) {
    RUN(names_in_a_row_are_spread);
    RUN(a_hash_tells_each_change_and_length);
    RUN(what_was_put_is_there_until_its_time);
    RUN(forgetting_what_is_not_there_takes_no_memory);
    RUN(a_full_memory_forgets_what_ends_first);
    return check_result();
}
