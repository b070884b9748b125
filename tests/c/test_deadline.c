/* The heap of deadlines against a plain array that is searched anew each time. */
#include "check.h"
#include "deadline.h"
#include "fence.h"

enum { NODES = 300 };

static int64_t earliest_of(const hf_due *nodes, int n) {
    int64_t best = HF_NEVER;
    for (int i = 0; i < n; i++) {
        if (nodes[i].index >= 0 && nodes[i].at < best) {
            best = nodes[i].at;
        }
    }
    return best;
}

static int holds_invariant(const hf_heap *h) {
    for (int32_t i = 0; i < h->len; i++) {
        if (h->at[i]->index != i || (i > 0 && h->at[(i - 1) / 4]->at > h->at[i]->at)) {
            return 0;
        }
    }
    return 1;
}

static void an_empty_heap_has_nothing_due(void) {
    hf_heap h = {NULL, 0, 0};
    CHECK_EQ(hf_heap_next(&h), HF_NEVER);
    CHECK(hf_heap_pop(&h, HF_NEVER) == NULL);
    hf_due d = hf_due_make(7);
    hf_heap_remove(&h, &d);
    CHECK_EQ(d.kind, 7);
    CHECK_EQ(hf_heap_set(&h, &d, HF_NEVER), 0);
    CHECK_EQ(h.len, 0);
    hf_heap_free(&h);
}

static void random_sets_moves_and_removals_agree_with_an_array(void) {
    uint64_t random = 88172645463325252u;
    hf_due nodes[NODES];
    hf_heap h = {NULL, 0, 0};
    for (int i = 0; i < NODES; i++) {
        nodes[i] = hf_due_make(i);
    }
    int wrong = 0;
    for (int step = 0; step < 40000; step++) {
        hf_due *d = &nodes[fence_random(&random) % NODES];
        /* A small range of times, so that equal ones are common. */
        int64_t at = fence_random(&random) % 500;
        switch (fence_random(&random) % 4) {
        case 0:
            hf_heap_remove(&h, d);
            wrong += d->index != -1;
            break;
        case 1:
            wrong += hf_heap_set(&h, d, HF_NEVER) != 0 || d->index != -1;
            break;
        default:
            wrong += hf_heap_set(&h, d, at) != 0 || d->at != at || d->index < 0;
            break;
        }
        wrong += hf_heap_next(&h) != earliest_of(nodes, NODES);
        wrong += step % 64 == 0 && !holds_invariant(&h);
    }
    CHECK_EQ(wrong, 0);
    hf_heap_free(&h);
}

static void popping_gives_all_that_is_due_in_order_and_nothing_else(void) {
    uint64_t random = 1234567;
    hf_due nodes[NODES];
    hf_heap h = {NULL, 0, 0};
    int due = 0;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = hf_due_make(i);
        int64_t at = fence_random(&random) % 1000;
        due += at <= 600;
        REQUIRE(hf_heap_set(&h, &nodes[i], at) == 0);
    }
    int64_t last = -1;
    hf_due *d;
    while ((d = hf_heap_pop(&h, 600)) != NULL) {
        CHECK(d->at >= last && d->at <= 600 && d->index == -1);
        last = d->at;
        due--;
        /* A popped node may come back at once, later or just as due. */
        if (d->kind % 10 == 0 && d->at < 300) {
            REQUIRE(hf_heap_set(&h, d, 600) == 0);
            due++;
        }
    }
    CHECK_EQ(due, 0);
    CHECK(hf_heap_next(&h) > 600);
    hf_heap_free(&h);
}

static void room_that_was_reserved_is_not_asked_for_again(void) {
    hf_due nodes[NODES];
    hf_heap h = {NULL, 0, 0};
    REQUIRE(hf_heap_reserve(&h, NODES) == 0);
    hf_due **before = h.at;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = hf_due_make(0);
        hf_heap_set(&h, &nodes[i], NODES - i);
    }
    CHECK(h.at == before);
    CHECK_EQ(hf_heap_next(&h), 1);
    hf_heap_free(&h);
}

int main(void) {
    RUN(an_empty_heap_has_nothing_due);
    RUN(random_sets_moves_and_removals_agree_with_an_array);
    RUN(popping_gives_all_that_is_due_in_order_and_nothing_else);
    RUN(room_that_was_reserved_is_not_asked_for_again);
    return check_result();
}
