/* The tables behind charset and cjk. Written by tools/make_charsets.py. */
#ifndef HF_CHARSET_DATA_H
#define HF_CHARSET_DATA_H

#include <stddef.h>
#include <stdint.h>

typedef enum hf_charset_kind {
    HF_CS_SINGLE,
    HF_CS_UTF8,
    HF_CS_UTF16LE,
    HF_CS_UTF16BE,
    HF_CS_GB18030,
    HF_CS_BIG5,
    HF_CS_EUC_JP,
    HF_CS_ISO_2022_JP,
    HF_CS_SHIFT_JIS,
    HF_CS_EUC_KR,
    HF_CS_NEVER /* a name that is known and not decoded */
} hf_charset_kind;

struct hf_charset {
    const char *name; /* lower case, as in the record */
    hf_charset_kind kind;
    const uint16_t *table; /* of HF_CS_SINGLE: bytes 80 to FF; 0 where undefined */
};

typedef struct hf_charset_label {
    char label[20]; /* lower case; in place, since pointers cost relocations */
    uint8_t index;  /* into hf_charsets */
} hf_charset_label;

typedef struct hf_gb18030_run {
    uint16_t pointer; /* number of the first four-byte form of the run */
    uint16_t cp;      /* its code point; those after it follow */
} hf_gb18030_run;

extern const struct hf_charset hf_charsets[];
extern const hf_charset_label hf_charset_labels[]; /* sorted by label */
extern const size_t hf_charset_label_count;

/* Packed, since they are most of the module's size: eight bytes a word, the lowest
 * first. cjk_tables.h has them unpacked. */
extern const uint64_t hf_gbk_packed[];
extern const uint64_t hf_big5_packed[];
extern const uint64_t hf_jis0208_packed[];
extern const uint64_t hf_jis0212_packed[];
extern const uint64_t hf_euc_kr_packed[];
extern const hf_gb18030_run hf_gb18030_runs[];
extern const size_t hf_gb18030_run_count;

#endif
