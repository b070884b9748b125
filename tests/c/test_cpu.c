#include "cpu.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

#if defined(__x86_64__)

/* The kernel's line of flags, with a blank at both ends of each; "" without one. */
static void read_flags(char *flags, size_t cap) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    flags[0] = '\0';
    while (f != NULL && fgets(flags, (int)cap, f) != NULL) {
        if (strncmp(flags, "flags", 5) == 0)
            break;
        flags[0] = '\0';
    }
    if (f != NULL)
        fclose(f);
    char *end = strchr(flags, '\n');
    if (end != NULL)
        *end = ' ';
}

static void what_the_kernel_knows_of_the_processor_is_found(void) {
    static const char *const names[] = {" avx512f ",    " avx512bw ",     " avx512vl ",
                                        " avx512vbmi ", " avx512_vbmi2 ", " bmi2 "};
    char flags[16384];
    read_flags(flags, sizeof flags);
    CHECK(flags[0] != '\0');
    CHECK_EQ(hf_cpu_has_avx2(), strstr(flags, " avx2 ") != NULL);
    bool all = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        all = all && strstr(flags, names[i]) != NULL;
    CHECK_EQ(hf_cpu_has_vbmi2(), all);
}

int main(void) {
    RUN(what_the_kernel_knows_of_the_processor_is_found);
    return check_result();
}

#else

int main(void) {
    return 0;
}

#endif
