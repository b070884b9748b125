/* Memory of bodies: the last one first, some of it, and never of another's maximum. */
#include "check.h"
#include "spares.h"

static hf_buf filled(size_t n) {
    hf_buf b = hf_buf_make((size_t)64 << 20);
    REQUIRE(hf_buf_reserve(&b, n) == 0);
    b.len = n;
    return b;
}

static void the_last_block_given_back_is_lent_first(void) {
    hf_spares spares = {0};
    hf_buf a = filled(1000);
    hf_buf b = filled(5000);
    const uint8_t *in_a = a.data;
    const uint8_t *in_b = b.data;
    hf_spares_take(&spares, &a);
    hf_spares_take(&spares, &b);
    CHECK(a.data == NULL && a.cap == 0 && a.len == 0);
    CHECK_EQ(a.max, (size_t)64 << 20);
    hf_buf c = hf_buf_make((size_t)64 << 20);
    hf_spares_lend(&spares, &c);
    CHECK(c.data == in_b && c.len == 0 && c.cap >= 5000);
    hf_spares_lend(&spares, &c); /* it has memory already */
    CHECK(c.data == in_b);
    hf_spares_lend(&spares, &a);
    CHECK(a.data == in_a);
    CHECK_EQ(spares.bytes, 0);
    hf_spares_lend(&spares, &b); /* nothing is left: it grows by itself */
    CHECK(b.data == NULL);
    hf_buf_free(&a);
    hf_buf_free(&c);
    hf_spares_free(&spares);
}

static void what_is_too_much_is_freed(void) {
    hf_spares spares = {0};
    hf_buf large = filled(((size_t)1 << 20) + 1);
    hf_spares_take(&spares, &large);
    CHECK_EQ(spares.n, 0);
    CHECK(large.data == NULL);
    for (int i = 0; i < 20; i++) {
        hf_buf b = filled((size_t)1 << 20);
        hf_spares_take(&spares, &b);
    }
    CHECK_EQ(spares.n, 8); /* 8 MiB */
    hf_spares_free(&spares);
    for (int i = 0; i < HF_SPARES + 5; i++) {
        hf_buf b = filled(100);
        hf_spares_take(&spares, &b);
    }
    CHECK_EQ(spares.n, HF_SPARES);
    hf_buf none = hf_buf_make(10);
    hf_spares_take(&spares, &none);
    CHECK_EQ(spares.n, HF_SPARES);
    hf_spares_free(&spares);
    CHECK_EQ(spares.bytes, 0);
}

static void give(hf_spares *spares, hf_buf *b, int n) {
    while (n-- > 0) {
        hf_spares_take(spares, &b[n]);
    }
}

static void borrow(hf_spares *spares, hf_buf *b, int n) {
    for (int i = 0; i < n; i++) {
        b[i] = hf_buf_make((size_t)64 << 20);
        hf_spares_lend(spares, &b[i]);
    }
}

static void what_a_peak_took_goes_when_no_other_comes(void) {
    hf_spares spares = {0};
    hf_buf b[10];
    for (int i = 0; i < 10; i++) {
        b[i] = filled((size_t)100 << 10);
    }
    const uint8_t *in_first = b[0].data;
    give(&spares, b, 10);
    for (int i = 0; i < 4 * HF_LULL_ROUND; i++) { /* three are enough, nine at times */
        int n = i % (HF_LULL_ROUND / 4) == 0 ? 9 : 3;
        borrow(&spares, b, n);
        CHECK(b[0].data == in_first);
        give(&spares, b, n);
    }
    CHECK_EQ(spares.n, 9);
    for (int i = 0; i < HF_LULL_ROUND; i++) {
        borrow(&spares, b, 3);
        CHECK(b[0].data == in_first && b[2].cap >= (size_t)100 << 10);
        give(&spares, b, 3);
    }
    CHECK_EQ(spares.n, 3);
    CHECK_EQ(spares.bytes, 3 * ((size_t)128 << 10));
    hf_spares_free(&spares);
}

int main(void) {
    RUN(the_last_block_given_back_is_lent_first);
    RUN(what_is_too_much_is_freed);
    RUN(what_a_peak_took_goes_when_no_other_comes);
    return check_result();
}
