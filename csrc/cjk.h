/* The multi-byte charsets of Chinese, Japanese and Korean, decoded to UTF-8.
 *
 * As in the WHATWG Encoding Standard, and strict: bytes that stand for nothing are an
 * error. Left out are some 190 codes of Big5-HKSCS that CPython's codec lacks too.
 * out holds hf_charset_room(n) bytes and does not overlap s. Each returns the bytes
 * written, or HF_EBAD. No allocation; any thread. The first call of each unpacks its
 * tables, in 0.1 ms.
 */
#ifndef HF_CJK_H
#define HF_CJK_H

#include <stddef.h>
#include <stdint.h>

int64_t hf_cjk_gb18030(uint8_t *out, const uint8_t *s, size_t n); /* and gbk */
int64_t hf_cjk_big5(uint8_t *out, const uint8_t *s, size_t n);
int64_t hf_cjk_euc_jp(uint8_t *out, const uint8_t *s, size_t n);
int64_t hf_cjk_iso_2022_jp(uint8_t *out, const uint8_t *s, size_t n);
int64_t hf_cjk_shift_jis(uint8_t *out, const uint8_t *s, size_t n);
int64_t hf_cjk_euc_kr(uint8_t *out, const uint8_t *s, size_t n);

#endif
