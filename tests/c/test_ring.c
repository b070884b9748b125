/* The ring's exact states: positions, wraps, references, slots. */
#include "ring_play.h"

static void a_ring_refuses_a_capacity_that_is_no_power_of_two(void) {
    static const size_t bad[] = {0, 1, 4, 9, 24, 65535, SIZE_MAX, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[100] = "";
        hf_ring r;
        CHECK_EQ(hf_ring_init(&r, bad[i], NULL, NULL, (hf_errbuf){text, sizeof text}),
                 HF_EINVAL);
        CHECK(strstr(text, "power of two") != NULL);
        hf_ring_free(&r);
    }
}

static void an_empty_ring_gives_nothing(void) {
    hf_ring r;
    make(&r, 16, 0);
    CHECK(gives(&r, ""));
    CHECK(!hf_ring_ready(&r));
    CHECK_EQ(hf_ring_free_space(&r), 16);
    CHECK_EQ(hf_ring_used(&r), 0);
    hf_ring_advance(&r, 0);
    CHECK_EQ(r.head_pos, 0);
    hf_ring_free(&r);
}

static void a_record_of_many_parts_comes_out_whole(void) {
    hf_ring r;
    make(&r, 16, 13);
    struct iovec parts[4] = {
        {(void *)"ab", 2}, {NULL, 0}, {(void *)"cdef", 4}, {(void *)"g\n", 2}};
    CHECK_EQ(hf_ring_push(&r, parts, 4), 0);
    CHECK_EQ(hf_load(&r.tail, HF_SEQ_CST), 21);
    CHECK(gives(&r, "abcdefg\n"));
    CHECK_EQ(hf_ring_used(&r), 8);
    hf_ring_free(&r);
}

static void a_record_that_does_not_fit_changes_nothing(void) {
    hf_ring r;
    make(&r, 8, 3);
    CHECK_EQ(push(&r, "12345"), 0);
    CHECK_EQ(push(&r, "6789"), HF_EFULL);
    CHECK_EQ(hf_load(&r.tail, HF_SEQ_CST), 8);
    CHECK(gives(&r, "12345"));
    CHECK_EQ(push(&r, "678"), 0);
    CHECK_EQ(push(&r, "9"), HF_EFULL);
    CHECK(gives(&r, "12345678"));
    CHECK_EQ(push(&r, "123456789"), HF_EINVAL);
    hf_ring_advance(&r, 1);
    CHECK_EQ(push(&r, "9"), 0);
    CHECK(gives(&r, "23456789"));
    hf_ring_free(&r);
}

static void an_exact_fit_at_the_end_is_one_segment(void) {
    hf_ring r;
    struct iovec seg[2];
    make(&r, 8, 5);
    CHECK_EQ(push(&r, "abc"), 0);
    CHECK_EQ(hf_ring_peek(&r, seg), 1);
    CHECK_EQ(seg[0].iov_len, 3);
    CHECK(seg[0].iov_base == r.data + 5);
    hf_ring_advance(&r, 3);
    CHECK_EQ(push(&r, "defghijk"), 0);
    CHECK_EQ(hf_ring_peek(&r, seg), 1);
    CHECK(seg[0].iov_base == r.data);
    CHECK(gives(&r, "defghijk"));
    hf_ring_free(&r);
}

static void a_full_ring_with_both_positions_on_one_cell_is_not_empty(void) {
    for (uint64_t at = 0; at < 8; at++) {
        hf_ring r;
        struct iovec seg[2];
        make(&r, 8, at);
        CHECK_EQ(push(&r, "abcdefgh"), 0);
        CHECK_EQ(hf_ring_free_space(&r), 0);
        CHECK(hf_ring_ready(&r));
        CHECK_EQ(hf_ring_peek(&r, seg), at ? 2 : 1);
        CHECK(gives(&r, "abcdefgh"));
        hf_ring_advance(&r, 8);
        CHECK(gives(&r, ""));
        CHECK(!hf_ring_ready(&r));
        CHECK_EQ(hf_ring_free_space(&r), 8);
        hf_ring_free(&r);
    }
}

static void positions_may_pass_2_to_the_64(void) {
    for (uint64_t back = 0; back <= 20; back++) {
        hf_ring r;
        char want[16];
        make(&r, 16, (uint64_t)0 - back);
        for (int i = 0; i < 30; i++) {
            snprintf(want, sizeof want, "r%03d", i);
            CHECK_EQ(push(&r, want), 0);
            if (i % 3 == 0) {
                CHECK_EQ(push_ref(&r, "heap"), 0);
                CHECK_EQ(hf_ring_free_space(&r), 11);
            }
            CHECK(gives(&r, want));
            hf_ring_advance(&r, 4);
            if (i % 3 == 0) {
                CHECK(gives(&r, "heap"));
                hf_ring_advance(&r, 4);
            }
        }
        CHECK_EQ(r.tail_pos, (uint64_t)130 - back);
        CHECK_EQ(r.head_pos, r.tail_pos);
        CHECK(!hf_ring_overdue(&r));
        hf_ring_free(&r);
    }
}

static void a_part_written_leaves_the_rest_in_place(void) {
    for (size_t step = 1; step <= 7; step++) {
        hf_ring r;
        static const char all[] = "abcdefgh";
        make(&r, 8, 5);
        CHECK_EQ(push(&r, "abc"), 0);
        CHECK_EQ(push(&r, "defgh"), 0);
        for (size_t done = 0; done < 8; done += step) {
            CHECK(gives(&r, all + done));
            hf_ring_advance(&r, step < 8 - done ? step : 8 - done);
        }
        CHECK(gives(&r, ""));
        hf_ring_free(&r);
    }
}

static void reserved_room_is_published_by_commit_only(void) {
    hf_ring r;
    make(&r, 8, 2);
    uint8_t *room = hf_ring_reserve(&r, 4);
    REQUIRE(room);
    memcpy(room, "abcd", 4);
    CHECK(gives(&r, ""));
    hf_ring_commit(&r, 3);
    CHECK(gives(&r, "abc"));
    CHECK(hf_ring_reserve(&r, 4) == NULL);
    CHECK(hf_ring_reserve(&r, 3) != NULL);
    CHECK_EQ(push(&r, "de"), 0);
    CHECK(hf_ring_reserve(&r, 2) == NULL);
    CHECK_EQ(push(&r, "fg"), 0);
    CHECK(hf_ring_reserve(&r, 2) == NULL);
    CHECK(hf_ring_reserve(&r, 1) != NULL);
    hf_ring_free(&r);
}

static void a_record_in_parts_is_published_whole_and_across_the_end(void) {
    hf_ring r;
    make(&r, 8, 5);
    uint8_t *room = hf_ring_extend(&r, 0, 3);
    REQUIRE(room);
    memcpy(room, "abc", 3);
    CHECK(hf_ring_extend(&r, 2, 2) == NULL); /* meets the end of the ring */
    CHECK(hf_ring_extend(&r, 3, 6) == NULL); /* more than there is */
    CHECK_EQ(hf_ring_append(&r, 2, (const uint8_t *)"xyz", 3), 0);
    CHECK_EQ(hf_ring_append(&r, 5, (const uint8_t *)"1234", 4), HF_EFULL);
    room = hf_ring_extend(&r, 5, 3);
    REQUIRE(room);
    memcpy(room, "12\n", 3);
    CHECK(gives(&r, ""));
    CHECK_EQ(hf_ring_used(&r), 0);
    hf_ring_commit(&r, 8);
    CHECK(gives(&r, "abxyz12\n"));
    CHECK(hf_ring_extend(&r, 0, 1) == NULL);
    CHECK_EQ(hf_ring_append(&r, 0, (const uint8_t *)"!", 1), HF_EFULL);
    hf_ring_advance(&r, 8);
    CHECK(hf_ring_extend(&r, 0, 1) != NULL);
    hf_ring_free(&r);
}

static void references_keep_their_place_among_the_bytes(void) {
    for (uint64_t at = 0; at < 16; at++) {
        hf_ring r;
        make(&r, 16, at);
        CHECK_EQ(push_ref(&r, "first by reference"), 0);
        CHECK_EQ(push(&r, "abc"), 0);
        CHECK_EQ(push_ref(&r, "second"), 0);
        CHECK_EQ(push_ref(&r, "third"), 0);
        CHECK_EQ(push(&r, "def"), 0);
        CHECK_EQ(hf_ring_used(&r), 18 + 3 + 6 + 5 + 3);
        CHECK(gives(&r, "first by reference"));
        hf_ring_advance(&r, 17);
        CHECK(gives(&r, "e"));
        hf_ring_advance(&r, 1);
        CHECK(gives(&r, "abc"));
        hf_ring_advance(&r, 2);
        CHECK(gives(&r, "c"));
        hf_ring_advance(&r, 1);
        CHECK(gives(&r, "second"));
        hf_ring_advance(&r, 6);
        CHECK(gives(&r, "third"));
        hf_ring_advance(&r, 5);
        CHECK(gives(&r, "def"));
        hf_ring_advance(&r, 3);
        CHECK(gives(&r, ""));
        CHECK_EQ(hf_ring_used(&r), 0);
        hf_ring_free(&r);
    }
}

static void references_are_bounded_in_number(void) {
    hf_ring r;
    make(&r, 1024, 1000);
    for (int i = 0; i < HF_RING_REFS; i++)
        CHECK_EQ(push_ref(&r, "x"), 0);
    CHECK_EQ(push_ref(&r, "y"), HF_EFULL);
    CHECK_EQ(push(&r, "bytes still fit"), 0);
    CHECK(gives(&r, "x"));
    hf_ring_advance(&r, 1);
    CHECK_EQ(push_ref(&r, "y"), 0);
    CHECK_EQ(push_ref(&r, "z"), HF_EFULL);
    hf_ring_free(&r);
}

static void references_are_bounded_in_bytes_but_one_always_fits(void) {
    hf_ring r;
    char text[42];
    make(&r, 8, 0);
    memset(text, 'x', 41);
    text[41] = 0;
    CHECK_EQ(push_ref(&r, text), 0); /* longer than 4 x 8, but none waits */
    CHECK_EQ(push_ref(&r, "y"), HF_EFULL);
    CHECK(gives(&r, text));
    hf_ring_advance(&r, 40);
    CHECK_EQ(push_ref(&r, "y"), HF_EFULL);
    hf_ring_advance(&r, 1);
    text[31] = 0;
    CHECK_EQ(push_ref(&r, text), 0);
    CHECK_EQ(push_ref(&r, "yz"), HF_EFULL);
    CHECK_EQ(push_ref(&r, "y"), 0);
    CHECK_EQ(hf_ring_push_ref(&r, NULL, 4), HF_EINVAL);
    hf_ring_free(&r);
}

static void a_reference_needs_one_byte_of_the_ring(void) {
    hf_ring r;
    make(&r, 8, 4);
    CHECK_EQ(push(&r, "12345678"), 0);
    CHECK_EQ(push_ref(&r, "ref"), HF_EFULL);
    hf_ring_advance(&r, 1);
    CHECK_EQ(push_ref(&r, "ref"), 0);
    CHECK_EQ(push(&r, "9"), HF_EFULL);
    CHECK(gives(&r, "2345678"));
    hf_ring_free(&r);
}

static void only_long_records_travel_by_reference(void) {
    hf_ring r;
    make(&r, 1024, 0);
    CHECK(!hf_ring_by_ref(&r, 128));
    CHECK(hf_ring_by_ref(&r, 129));
    hf_ring_free(&r);
}

static void slots_come_out_whole_and_in_order(void) {
    typedef struct slot {
        uint32_t n[5]; /* 20 bytes: does not divide the capacity */
    } slot;
    hf_slots s;
    uint32_t in = 0, out = 0;
    slot got[4];
    REQUIRE(hf_slots_init(&s, sizeof(slot), 6, NULL, NULL, no_text) == 0);
    CHECK_EQ(s.ring.capacity, 128);
    CHECK_EQ(hf_slots_pop(&s, got, 4), 0);
    for (int round = 0; round < 200; round++) {
        for (;; in++) {
            slot one = {{in, ~in, in * 3, in ^ 7, in}};
            if (hf_slots_push(&s, &one) == HF_EFULL)
                break;
        }
        CHECK_EQ(in - out, 6);
        CHECK_EQ(hf_slots_pop(&s, got, 0), 0);
        int n = hf_slots_pop(&s, got, 1 + round % 4);
        CHECK_EQ(n, 1 + round % 4);
        for (int i = 0; i < n; i++, out++)
            CHECK(got[i].n[0] == out && got[i].n[1] == ~out && got[i].n[4] == out);
    }
    hf_slots_free(&s);
}

static void slots_refuse_sizes_that_cannot_be(void) {
    hf_slots s;
    CHECK_EQ(hf_slots_init(&s, 0, 4, NULL, NULL, no_text), HF_EINVAL);
    CHECK_EQ(hf_slots_init(&s, 4, 0, NULL, NULL, no_text), HF_EINVAL);
    CHECK_EQ(hf_slots_init(&s, SIZE_MAX / 2, 3, NULL, NULL, no_text), HF_EINVAL);
}

/* A random walk beside a plain model: whatever the order of pushes, references, parts
 * and closes, the bytes come out as they went in.
 */
static void a_random_walk_agrees_with_a_plain_queue(void) {
    static uint8_t model[1 << 16];
    uint32_t seed = 12345;
    for (int run = 0; run < 200; run++) {
        hf_ring r;
        size_t in = 0, out = 0;
        make(&r, (size_t)8 << run % 4, (uint64_t)0 - (uint64_t)(run % 40));
        for (int step = 0; step < 300; step++) {
            seed = seed * 1664525 + 1013904223;
            size_t len = 1 + (seed >> 20) % (r.capacity + 2);
            uint8_t *heap = malloc(len);
            REQUIRE(heap);
            for (size_t i = 0; i < len; i++)
                model[in + i] = heap[i] = (uint8_t)(seed >> i % 24);
            struct iovec part[2] = {{heap, len / 2}, {heap + len / 2, len - len / 2}};
            int by_ref = (seed >> 16) % 4 == 0;
            int rc =
                by_ref ? hf_ring_push_ref(&r, heap, len) : hf_ring_push(&r, part, 2);
            in += rc == 0 ? len : 0;
            if (rc || !by_ref)
                free(heap);
            struct iovec seg[2];
            int n = hf_ring_peek(&r, seg);
            CHECK_EQ(n == 0, in == out);
            for (int i = 0; i < n && (seed >> 12) % 2; i++) {
                size_t take = i || n == 2 ? seg[i].iov_len : 1 + seg[i].iov_len / 2;
                take = take < seg[i].iov_len ? take : seg[i].iov_len;
                CHECK(memcmp(model + out, seg[i].iov_base, take) == 0);
                hf_ring_advance(&r, take);
                out += take;
            }
            CHECK_EQ(hf_ring_used(&r), in - out);
        }
        hf_ring_free(&r);
    }
}

int main(void) {
    RUN(a_ring_refuses_a_capacity_that_is_no_power_of_two);
    RUN(an_empty_ring_gives_nothing);
    RUN(a_record_of_many_parts_comes_out_whole);
    RUN(a_record_that_does_not_fit_changes_nothing);
    RUN(an_exact_fit_at_the_end_is_one_segment);
    RUN(a_full_ring_with_both_positions_on_one_cell_is_not_empty);
    RUN(positions_may_pass_2_to_the_64);
    RUN(a_part_written_leaves_the_rest_in_place);
    RUN(reserved_room_is_published_by_commit_only);
    RUN(a_record_in_parts_is_published_whole_and_across_the_end);
    RUN(references_keep_their_place_among_the_bytes);
    RUN(references_are_bounded_in_number);
    RUN(references_are_bounded_in_bytes_but_one_always_fits);
    RUN(a_reference_needs_one_byte_of_the_ring);
    RUN(only_long_records_travel_by_reference);
    RUN(slots_come_out_whole_and_in_order);
    RUN(slots_refuse_sizes_that_cannot_be);
    RUN(a_random_walk_agrees_with_a_plain_queue);
    return check_result();
}
