/* What a body is: text in some charset, told in UTF-8, or bytes.
 *
 * The order of evidence: byte order mark, charset of the Content-Type header, <meta> in
 * the first 1024 bytes, validity as UTF-8, and windows-1252 where nothing else tells.
 * Labels are those of the WHATWG Encoding Standard; an unknown one counts as absent.
 *
 * Nothing is ever replaced: text that cannot be decoded to the last byte is not text.
 *   - A body that is not valid in the charset claimed for it becomes UTF-8 with source
 *     "valid" where it is that, else base64 under the claimed charset's name. A byte
 *     order mark admits no such doubt, nor do bytes that hide their text in ASCII.
 *   - UTF-8 that only lacks the end of its last character is base64, source "valid".
 *   - A body with a binary Content-Type, or with a NUL in it and no charset claimed, is
 *     base64 without a charset, unless text is asked for.
 *   - A byte order mark is not part of the text: the source "bom" tells that it stood
 *     there. UTF-32 is told by its mark, but not decoded.
 *
 * A context belongs to one thread and holds the memory that decoded text stands in.
 */
#ifndef HF_TEXT_H
#define HF_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { HF_TEXT_NONE, HF_TEXT_UTF8, HF_TEXT_BASE64 };

/* Where the charset was found. */
enum {
    HF_CHARSET_NULL,
    HF_CHARSET_BOM,
    HF_CHARSET_HEADER,
    HF_CHARSET_META,
    HF_CHARSET_VALID,
    HF_CHARSET_DEFAULT
};

typedef struct hf_text {
    int kind;            /* HF_TEXT_…: nothing, utf8, or the body's bytes as base64 */
    int source;          /* HF_CHARSET_… */
    const char *charset; /* lower-case name, static; NULL with HF_CHARSET_NULL */
    const uint8_t *utf8; /* in the body or in the context; NULL unless HF_TEXT_UTF8 */
    size_t utf8_len;     /* bytes, valid UTF-8 */
} hf_text;

typedef struct hf_text_ctx hf_text_ctx;

/* Returns NULL when there is no memory. */
hf_text_ctx *hf_text_new(void);

/* NULL is allowed. */
void hf_text_free(hf_text_ctx *ctx);

/* Decides and decodes. content_type is the header's value as it came, NULL for none.
 * With force_text neither Content-Type nor NUL makes a body binary.
 * Valid:  out->utf8 while the body lives and until the next call with this ctx.
 * Blocks: no.
 * Returns 0, or HF_ENOMEM, with the body told as base64 then.
 */
int hf_text_decide(hf_text_ctx *ctx, const uint8_t *body, size_t n,
                   const uint8_t *content_type, size_t ct_len, int force_text,
                   hf_text *out);

/* Tells charset and source as hf_text_decide does, for who has no use for the text:
 * most bodies need no look at all then. kind is HF_TEXT_NONE and utf8 NULL. Returns 0,
 * or HF_ENOMEM, with charset and source told as for base64 then.
 */
int hf_text_name(hf_text_ctx *ctx, const uint8_t *body, size_t n,
                 const uint8_t *content_type, size_t ct_len, int force_text,
                 hf_text *out);

/* What hf_text_name told, as a number for hf_text_recall; 0 where there is no text. */
uint32_t hf_text_key(const hf_text *told);

/* Gives what hf_text_decide gives for the body that the key is of, but for charset and
 * source, which name has told already. With any other key the answer is some other one.
 * Valid and returns as hf_text_decide. */
int hf_text_recall(hf_text_ctx *ctx, uint32_t key, const uint8_t *body, size_t n,
                   hf_text *out);

/* The name as in the record; NULL for HF_CHARSET_NULL. */
const char *hf_text_source_name(int source);

#endif
