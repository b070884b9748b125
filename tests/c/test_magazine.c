/* Blocks between two uses: every one is malloc's, holds what was asked for, and comes
 * back from a thread that has a magazine and from one that has none. */
#include "magazine.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

#include "check.h"

enum { MANY = 300 };

static void what_is_freed_is_given_again(void) {
    hf_magazine_open();
    void *a = hf_magazine_malloc(100);
    void *b = hf_magazine_malloc(100);
    hf_magazine_free(a);
    hf_magazine_free(b);
    CHECK(hf_magazine_kept() >= 200);
    CHECK(hf_magazine_malloc(97) == b); /* the last one first: it is in the cache */
    CHECK(hf_magazine_malloc(104) == a);
    CHECK_EQ(hf_magazine_kept(), 0);
    free(a); /* plain free may have it at any time */
    hf_magazine_free(b);
    hf_magazine_close();
    CHECK_EQ(hf_magazine_kept(), 0);
}

static void a_block_holds_what_was_asked_for(void) {
    hf_magazine_open();
    void *blocks[MANY];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            size_t n = i * 5 % (HF_MAGAZINE_BLOCK + 100);
            blocks[i] = hf_magazine_malloc(n);
            REQUIRE(blocks[i] != NULL);
            CHECK(malloc_usable_size(blocks[i]) >= n);
            memset(blocks[i], 0xa5, n);
        }
        for (size_t i = 0; i < MANY; i++) {
            hf_magazine_free(blocks[(i * 7) % MANY]);
        }
    }
    hf_magazine_close();
}

static void calloc_gives_zeroes_and_refuses_what_overflows(void) {
    hf_magazine_open();
    uint8_t *p = hf_magazine_malloc(64);
    memset(p, 0xff, 64);
    hf_magazine_free(p);
    uint8_t *zeroes = hf_magazine_calloc(8, 8);
    CHECK(zeroes == p);
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(zeroes[i], 0);
    }
    volatile size_t half = SIZE_MAX / 2;
    CHECK(hf_magazine_calloc(half, 3) == NULL);
    CHECK(hf_magazine_calloc(3, half) == NULL);
    hf_magazine_free(zeroes);
    hf_magazine_free(hf_magazine_calloc(0, 8));
    hf_magazine_free(hf_magazine_calloc(8, 0));
    hf_magazine_free(NULL);
    hf_magazine_close();
}

static void realloc_keeps_the_bytes(void) {
    hf_magazine_open();
    char *p = hf_magazine_realloc(NULL, 10);
    REQUIRE(p != NULL);
    memcpy(p, "0123456789", 10);
    for (size_t n = 11; n < 5000; n = n * 3 / 2) {
        p = hf_magazine_realloc(p, n);
        REQUIRE(p != NULL);
        CHECK(memcmp(p, "0123456789", 10) == 0);
        memset(p + 10, 'x', n - 10);
    }
    p = hf_magazine_realloc(p, 10); /* from malloc's own to ours */
    REQUIRE(p != NULL);
    CHECK(memcmp(p, "0123456789", 10) == 0);
    char *copy = hf_magazine_strdup("a string");
    CHECK(strcmp(copy, "a string") == 0);
    hf_magazine_free(copy);
    hf_magazine_free(p);
    hf_magazine_close();
}

static void each_size_is_kept_up_to_its_bound(void) {
    hf_magazine_open();
    enum { SIZE = 1000, COUNT = 100 };
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = hf_magazine_malloc(SIZE);
    }
    for (int i = 0; i < COUNT; i++) {
        hf_magazine_free(blocks[i]);
    }
    CHECK(hf_magazine_kept() >= HF_MAGAZINE_CLASS);
    CHECK(hf_magazine_kept() < HF_MAGAZINE_CLASS + 2 * SIZE);
    void *small = hf_magazine_malloc(8);
    size_t before = hf_magazine_kept();
    hf_magazine_free(small); /* one that is full takes nothing from the others */
    CHECK(hf_magazine_kept() > before);
    void *large = hf_magazine_malloc(HF_MAGAZINE_BLOCK + 1000);
    before = hf_magazine_kept();
    hf_magazine_free(large);
    CHECK_EQ(hf_magazine_kept(), before);
    hf_magazine_close();
}

static void *free_elsewhere(void *p) {
    CHECK_EQ(hf_magazine_kept(), 0);
    hf_magazine_free(p);
    void *q = hf_magazine_malloc(100);
    CHECK_EQ(hf_magazine_kept(), 0);
    return q;
}

static void threads_without_one_use_malloc(void) {
    hf_magazine_open();
    void *p = hf_magazine_malloc(100);
    void *q = NULL;
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, free_elsewhere, p);
    rc =
        rc == 0 ? pthread_join(thread, &q) : rc; /* checks are one thread's at a time */
    REQUIRE(rc == 0 && q != NULL);
    hf_magazine_free(q);
    CHECK(hf_magazine_kept() > 0); /* the other one's block is as good as any */
    hf_magazine_close();
}

int main(void) {
    RUN(what_is_freed_is_given_again);
    RUN(a_block_holds_what_was_asked_for);
    RUN(calloc_gives_zeroes_and_refuses_what_overflows);
    RUN(realloc_keeps_the_bytes);
    RUN(each_size_is_kept_up_to_its_bound);
    RUN(threads_without_one_use_malloc);
    return check_result();
}
