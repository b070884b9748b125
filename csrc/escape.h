/* Escaping of text for JSON strings.
 *
 * Escaped are the quote, the backslash, the controls 00-1F and 7F-9F and the separators
 * U+2028 and U+2029; all else is copied as it is. So a record has one line end, and no
 * byte that a terminal, a line splitter or a JavaScript parser takes for more than
 * text. Bytes in, bytes out: no state, no allocation, any thread. Short forms are used
 * where JSON has them, lower-case \u00xx elsewhere.
 *
 * Room: out holds hf_json_room(n) bytes. Up to 64 bytes past the count returned may be
 * overwritten. out does not overlap s, and no byte outside [s, s + n) is read.
 */
#ifndef HF_ESCAPE_H
#define HF_ESCAPE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes past the text that a kernel may overwrite, and two quotes. */
#define HF_JSON_SLACK 80

/* Bytes that out must hold for n bytes of input, whatever they are; SIZE_MAX when that
 * number does not fit. */
static inline size_t hf_json_room(size_t n) {
    return n > (SIZE_MAX - HF_JSON_SLACK) / 6 ? SIZE_MAX : 6 * n + HF_JSON_SLACK;
}

/* Escapes valid UTF-8, without quotes. Other bytes do no harm here, but come out as
 * they are. Returns the count written. */
size_t hf_json_escape(uint8_t *out, const uint8_t *s, size_t n);

/* Checks and escapes. Returns the count written, or -1 when s is not valid UTF-8, with
 * out then undefined. */
int64_t hf_json_escape_utf8(uint8_t *out, const uint8_t *s, size_t n);

/* Escapes each byte as the Latin-1 character of that number. Returns the count. */
size_t hf_json_escape_latin1(uint8_t *out, const uint8_t *s, size_t n);

/* The kernels behind hf_json_escape, for tests. */
size_t hf_json_escape_scalar(uint8_t *out, const uint8_t *s, size_t n);
#if defined(__x86_64__)
size_t hf_json_escape_sse2(uint8_t *out, const uint8_t *s, size_t n);
size_t hf_json_escape_avx2(uint8_t *out, const uint8_t *s, size_t n);
size_t hf_json_escape_vbmi2(uint8_t *out, const uint8_t *s, size_t n);
#elif defined(__aarch64__)
size_t hf_json_escape_neon(uint8_t *out, const uint8_t *s, size_t n);
#endif

#endif
