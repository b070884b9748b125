/* What the head of a response and of a page say about the body.
 *
 * Everything read here may be hostile: values are cut by length, never by terminator,
 * and nothing is found rather than guessed where the syntax is broken. No state, no
 * allocation; any thread.
 */
#ifndef HF_SNIFF_H
#define HF_SNIFF_H

#include <stddef.h>
#include <stdint.h>

#include "charset.h"

/* What a Content-Type says. */
typedef struct hf_content_type {
    const hf_charset *charset; /* the first known one claimed, or NULL */
    int binary;                /* 1: images, archives, programs and their like */
    int markup;                /* 1: HTML, XML or nothing that could be told */
} hf_content_type;

/* Reads a Content-Type as it came; s may be NULL with n = 0. */
hf_content_type hf_sniff_content_type(const uint8_t *s, size_t n);

/* The charset of a byte order mark, its length in *len. NULL when there is none. */
const hf_charset *hf_sniff_bom(const uint8_t *s, size_t n, size_t *len);

/* "utf-32le" or "utf-32be" when s starts with that mark, else NULL. */
const char *hf_sniff_utf32(const uint8_t *s, size_t n);

/* The charset that markup names in its first 1024 bytes: by the HTML standard's
 * "prescan", or in an XML declaration. UTF-16 there means UTF-8, for it was read as
 * ASCII. NULL when there is none. */
const hf_charset *hf_sniff_markup(const uint8_t *s, size_t n);

#endif
