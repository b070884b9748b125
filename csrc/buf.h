/* Growable bytes with a hard maximum.
 *
 * Invariant: len <= cap <= max; data is NULL only while cap is 0. A buffer that
 * could not grow keeps what it holds, so a caller may go on reading after HF_EFULL.
 * It is not a string: no terminator is kept.
 */
#ifndef HF_BUF_H
#define HF_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "err.h"

typedef struct hf_buf {
    uint8_t *data; /* owned */
    size_t len;    /* bytes in use */
    size_t cap;    /* bytes allocated */
    size_t max;    /* bytes never exceeded */
} hf_buf;

/* An empty buffer that allocates nothing yet. */
static inline hf_buf hf_buf_make(size_t max) {
    return (hf_buf){NULL, 0, 0, max};
}

/* Makes room for `extra` more bytes.
 * Returns 0, HF_EFULL past max, HF_ENOMEM. The content stays valid in each case.
 */
int hf_buf_reserve(hf_buf *b, size_t extra);

/* Appends n bytes. Returns as hf_buf_reserve; on failure nothing is appended. */
int hf_buf_append(hf_buf *b, const void *p, size_t n);

/* Appends as much of p as fits under max. Returns the count appended or HF_ENOMEM. */
int64_t hf_buf_append_some(hf_buf *b, const void *p, size_t n);

/* Forgets the content, keeps the memory when it is at most keep bytes. */
void hf_buf_reset(hf_buf *b, size_t keep);

/* Frees the memory; the buffer may be used again. */
void hf_buf_free(hf_buf *b);

#endif
