#include "cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

static bool avx2;
static bool vbmi2;

/* Which registers the system saves for a thread: bits of XCR0. */
static unsigned saved_registers(void) {
    unsigned low = 0;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* When the module is loaded, so that no thread can be before it. */
__attribute__((constructor)) static void look(void) {
    enum { YMM = 0x6, ZMM = 0xe6 }; /* the bits of XCR0 that each kind needs */
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
        return;
    unsigned saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    avx2 = (saved & YMM) == YMM && (b & bit_AVX2) != 0;
    unsigned in_b = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_BMI2;
    unsigned in_c = bit_AVX512VBMI | bit_AVX512VBMI2;
    vbmi2 = (saved & ZMM) == ZMM && (b & in_b) == in_b && (c & in_c) == in_c;
}

bool hf_cpu_has_avx2(void) {
    return avx2;
}

bool hf_cpu_has_vbmi2(void) {
    return vbmi2;
}

#endif
