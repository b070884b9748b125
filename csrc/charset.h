/* Charsets by the labels of the web, and decoding to UTF-8.
 *
 * Labels and meanings are those of the WHATWG Encoding Standard, which is what pages
 * are written for: latin1 is windows-1252, gb2312 is gbk. Decoding is strict: bytes
 * that stand for nothing are an error, never U+FFFD. All tables are in the library, so
 * that no answer depends on the host. No state, no allocation; any thread.
 */
#ifndef HF_CHARSET_H
#define HF_CHARSET_H

#include <stddef.h>
#include <stdint.h>

typedef struct hf_charset hf_charset;

/* The charset of a label, in any case and with blanks around it, or NULL. Static. */
const hf_charset *hf_charset_find(const uint8_t *label, size_t n);

/* A charset as a small number, from its name as below, and back. -1 and NULL for what
 * is none. */
int hf_charset_number(const char *name);
const hf_charset *hf_charset_of(uint32_t number);

/* Lower-case name, static: "windows-1252". */
const char *hf_charset_name(const hf_charset *cs);

int hf_charset_is_utf8(const hf_charset *cs);
int hf_charset_is_utf16(const hf_charset *cs);

/* 1 when bytes that are all below 0x80 are in this charset what they are in UTF-8. */
int hf_charset_keeps_ascii(const hf_charset *cs, const uint8_t *s, size_t n);

/* 1 when s holds what means something else in this charset than in ASCII: the NULs of
 * UTF-16, the escapes of the 7-bit ones. Valid UTF-8 is no doubt about it then. */
int hf_charset_hides_text(const hf_charset *cs, const uint8_t *s, size_t n);

/* Bytes that out of hf_charset_decode holds for n bytes; SIZE_MAX when too many. */
static inline size_t hf_charset_room(size_t n) {
    return n > (SIZE_MAX - 16) / 3 ? SIZE_MAX : 3 * n + 16;
}

/* Decodes all of s. out holds hf_charset_room(n) bytes and does not overlap s.
 * Returns the bytes written, or HF_EBAD when some byte stands for nothing; out is then
 * undefined.
 */
int64_t hf_charset_decode(const hf_charset *cs, uint8_t *out, const uint8_t *s,
                          size_t n);

#endif
