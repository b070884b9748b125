/* What this x86-64 processor can do beyond the baseline, and the system lets it.
 *
 * Asked of the processor itself, since __builtin_cpu_supports needs a table that the
 * compiler's run-time library fills, and zig's, which builds the wheels, stays empty.
 */
#ifndef HF_CPU_H
#define HF_CPU_H

#include <stdbool.h>

#if defined(__x86_64__)

/* AVX2; and all of AVX-512's F, BW, VL, VBMI and VBMI2, with BMI2.
 * Thread: any.  Blocks: no. Known before main.
 */
bool hf_cpu_has_avx2(void);
bool hf_cpu_has_vbmi2(void);

#endif
#endif
