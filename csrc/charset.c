#include "charset.h"

#include <string.h>

#include "charset_data.h"
#include "cjk.h"
#include "err.h"
#include "utf8.h"

enum { LONGEST_LABEL = 32 };

static int is_blank(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

int hf_charset_number(const char *name) {
    size_t low = 0;
    size_t high = hf_charset_label_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(name, hf_charset_labels[mid].label);
        if (order == 0)
            return (int)mid;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

const hf_charset *hf_charset_of(uint32_t number) {
    return number < hf_charset_label_count
               ? &hf_charsets[hf_charset_labels[number].index]
               : NULL;
}

const hf_charset *hf_charset_find(const uint8_t *label, size_t n) {
    while (n > 0 && is_blank(label[0])) {
        label++;
        n--;
    }
    while (n > 0 && is_blank(label[n - 1]))
        n--;
    if (n == 0 || n >= LONGEST_LABEL)
        return NULL;
    char name[LONGEST_LABEL] = {0};
    for (size_t i = 0; i < n; i++) {
        if (label[i] == 0)
            return NULL;
        name[i] = (char)(label[i] >= 'A' && label[i] <= 'Z' ? label[i] | 32 : label[i]);
    }
    int number = hf_charset_number(name);
    return number < 0 ? NULL : hf_charset_of((uint32_t)number);
}

const char *hf_charset_name(const hf_charset *cs) {
    return cs->name;
}

int hf_charset_is_utf8(const hf_charset *cs) {
    return cs->kind == HF_CS_UTF8;
}

int hf_charset_is_utf16(const hf_charset *cs) {
    return cs->kind == HF_CS_UTF16LE || cs->kind == HF_CS_UTF16BE;
}

/* Escape, shift out, shift in: what ISO 2022 changes its sets by. */
static int has_shifts(const uint8_t *s, size_t n) {
    return memchr(s, 0x1b, n) != NULL || memchr(s, 0x0e, n) != NULL ||
           memchr(s, 0x0f, n) != NULL;
}

int hf_charset_keeps_ascii(const hf_charset *cs, const uint8_t *s, size_t n) {
    if (hf_charset_is_utf16(cs) || cs->kind == HF_CS_NEVER)
        return 0;
    return cs->kind != HF_CS_ISO_2022_JP || !has_shifts(s, n);
}

int hf_charset_hides_text(const hf_charset *cs, const uint8_t *s, size_t n) {
    if (hf_charset_is_utf16(cs))
        return memchr(s, 0, n) != NULL;
    if (cs->kind == HF_CS_NEVER && strcmp(cs->name, "hz-gb-2312") == 0)
        return memmem(s, n, "~{", 2) != NULL;
    return (cs->kind == HF_CS_ISO_2022_JP || cs->kind == HF_CS_NEVER) &&
           has_shifts(s, n);
}

static int64_t decode_single(const uint16_t *table, uint8_t *out, const uint8_t *s,
                             size_t n) {
    uint8_t *o = out;
    size_t i = 0;
    while (i < n) {
        size_t run = hf_utf8_copy_ascii(o, s + i, n - i);
        o += run;
        i += run;
        for (; i < n && s[i] >= 0x80; i++) {
            uint16_t cp = table[s[i] - 0x80];
            if (cp == 0)
                return HF_EBAD;
            o += hf_utf8_put(o, cp);
        }
    }
    return o - out;
}

static int64_t decode_utf16(int big, uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    if (n % 2 != 0)
        return HF_EBAD;
    for (size_t i = 0; i < n; i += 2) {
        uint32_t cp = (uint32_t)s[i + (size_t)!big] << 8 | s[i + (size_t)big];
        if (cp >= 0xd800 && cp < 0xe000) {
            if (cp >= 0xdc00 || n - i < 4)
                return HF_EBAD;
            i += 2;
            uint32_t second = (uint32_t)s[i + (size_t)!big] << 8 | s[i + (size_t)big];
            if (second < 0xdc00 || second >= 0xe000)
                return HF_EBAD;
            cp = 0x10000 + ((cp - 0xd800) << 10) + (second - 0xdc00);
        }
        o += hf_utf8_put(o, cp);
    }
    return o - out;
}

static int64_t copy_utf8(uint8_t *out, const uint8_t *s, size_t n) {
    if (!hf_utf8_valid(s, n))
        return HF_EBAD;
    if (n > 0)
        memcpy(out, s, n);
    return (int64_t)n;
}

int64_t hf_charset_decode(const hf_charset *cs, uint8_t *out, const uint8_t *s,
                          size_t n) {
    switch (cs->kind) {
    case HF_CS_SINGLE:
        return decode_single(cs->table, out, s, n);
    case HF_CS_UTF8:
        return copy_utf8(out, s, n);
    case HF_CS_UTF16LE:
        return decode_utf16(0, out, s, n);
    case HF_CS_UTF16BE:
        return decode_utf16(1, out, s, n);
    case HF_CS_GB18030:
        return hf_cjk_gb18030(out, s, n);
    case HF_CS_BIG5:
        return hf_cjk_big5(out, s, n);
    case HF_CS_EUC_JP:
        return hf_cjk_euc_jp(out, s, n);
    case HF_CS_ISO_2022_JP:
        return hf_cjk_iso_2022_jp(out, s, n);
    case HF_CS_SHIFT_JIS:
        return hf_cjk_shift_jis(out, s, n);
    case HF_CS_EUC_KR:
        return hf_cjk_euc_kr(out, s, n);
    case HF_CS_NEVER:
        break;
    }
    return HF_EBAD;
}
