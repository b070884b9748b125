/* Checks for the C tests: each test is a function, each program runs some of them.
 *
 *     RUN(a_full_ring_refuses_and_keeps_its_bytes);
 *     return check_result();
 *
 * A failed check prints its place and the test goes on, so that one run tells all. What
 * cannot go on after a failure says REQUIRE.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_count;
static int check_failures;

static inline int check_that(int holds, const char *what, const char *file, int line) {
    check_count++;
    if (!holds) {
        check_failures++;
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
    }
    return holds;
}

static inline int check_equal(long long a, long long b, const char *what,
                              const char *file, int line) {
    check_count++;
    if (a != b) {
        check_failures++;
        fprintf(stderr, "%s:%d: %s: %lld, not %lld\n", file, line, what, a, b);
    }
    return a == b;
}

static inline int check_result(void) {
    fprintf(stderr, "%d checks, %d failed\n", check_count, check_failures);
    return check_failures == 0 && check_count > 0 ? 0 : 1;
}

#define CHECK(cond) check_that(!!(cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(a, b) \
    check_equal((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
#define REQUIRE(cond)     \
    do {                  \
        if (!CHECK(cond)) \
            exit(1);      \
    } while (0)
#define RUN(test)                                   \
    do {                                            \
        int before = check_failures;                \
        test();                                     \
        if (check_failures != before)               \
            fprintf(stderr, "failed: %s\n", #test); \
    } while (0)

#endif
