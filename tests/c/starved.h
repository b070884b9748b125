/* How much a machine delays what runs on it. */
#ifndef TEST_STARVED_H
#define TEST_STARVED_H

#include <stdint.h>
#include <stdio.h>

/* us since boot in which something here waited for a processor; what grows between two
 * looks is what a bound in time may be missed by through no fault of ours. 0 where the
 * kernel does not count it. */
static inline int64_t starved(void) {
    long long total = 0;
    FILE *f = fopen("/proc/pressure/cpu", "re");
    if (f != NULL) {
        if (fscanf(f, "some avg10=%*f avg60=%*f avg300=%*f total=%lld", &total) != 1) {
            total = 0;
        }
        fclose(f);
    }
    return total;
}

#endif
