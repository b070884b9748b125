/* The two-byte tables behind cjk, each unpacked at its first use.
 *
 * Rows by lead byte, cells by trail byte; 0 where undefined. In memory they are what
 * the decoders want, in the file a quarter of the size, which no compression of a wheel
 * would reach. What is not used takes no memory.
 */
#ifndef HF_CJK_TABLES_H
#define HF_CJK_TABLES_H

#include <uchar.h>

/* Each: cell type, name, rows, cells in a row. */
#define HF_CJK_TABLES(X)                                      \
    X(char16_t, gbk, 126, 190)    /* 81.., 40.. without 7F */ \
    X(char32_t, big5, 120, 157)   /* 87.., 40..7E and A1.. */ \
    X(char16_t, jis0208, 60, 188) /* as Shift_JIS has them */ \
    X(char16_t, jis0212, 94, 94)  /* A1.., A1.. */            \
    X(char16_t, euc_kr, 126, 190) /* 81.., 41.. */

/* Makes one table ready; each before its index is read, hf_need_gbk and so on.
 * Thread: any.  Blocks: for the 1 to 5 ms that the first call takes. Uses 30 KiB of
 * stack.
 */
#define HF_CJK_DECLARE(type, name, rows, cells)  \
    extern type hf_##name##_index[rows * cells]; \
    void hf_need_##name(void);
HF_CJK_TABLES(HF_CJK_DECLARE)
#undef HF_CJK_DECLARE

#endif
