/* The one clock of the core: monotonic microseconds, and the wall clock for records. */
#ifndef HF_CLOCK_H
#define HF_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t hf_clock_us(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Monotonic us. Any thread. */
static inline int64_t hf_now(void) {
    return hf_clock_us(CLOCK_MONOTONIC);
}

#endif
