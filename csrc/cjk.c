#include "cjk.h"

#include "charset_data.h"
#include "cjk_tables.h"
#include "err.h"
#include "utf8.h"

/* One character that starts with a byte from 0x80 on: sets *cp, 0 when the bytes stand
 * for nothing, and returns the bytes taken. n is at least 1. */
typedef size_t (*step)(const uint8_t *s, size_t n, uint32_t *cp);

/* The loop of the stateless ones; inlined into each, so that step is no call. */
static inline __attribute__((always_inline)) int64_t
decode(step next, uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    size_t i = 0;
    while (i < n) {
        size_t run = hf_utf8_copy_ascii(o, s + i, n - i);
        o += run;
        i += run;
        while (i < n && s[i] >= 0x80) {
            uint32_t cp = 0;
            i += next(s + i, n - i, &cp);
            if (cp == 0)
                return HF_EBAD;
            o += hf_utf8_put(o, cp);
        }
    }
    return o - out;
}

static int within(uint8_t c, uint8_t low, uint8_t high) {
    return c >= low && c <= high;
}

/* Four-byte forms: numbered, in runs of code points. */
static uint32_t gb18030_four(const uint8_t *s) {
    if (!within(s[1], 0x30, 0x39) || !within(s[2], 0x81, 0xfe) ||
        !within(s[3], 0x30, 0x39))
        return 0;
    uint32_t pointer = ((s[0] - 0x81u) * 10 + s[1] - 0x30u) * 1260 +
                       (s[2] - 0x81u) * 10 + s[3] - 0x30u;
    if (pointer >= 189000)
        return pointer - 189000 < 0x100000 ? pointer - 189000 + 0x10000 : 0;
    if (pointer >= 39420)
        return 0;
    size_t low = 0;
    size_t high = hf_gb18030_run_count;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (hf_gb18030_runs[mid].pointer <= pointer)
            low = mid;
        else
            high = mid;
    }
    return hf_gb18030_runs[low].cp + (pointer - hf_gb18030_runs[low].pointer);
}

static inline size_t next_gb18030(const uint8_t *s, size_t n, uint32_t *cp) {
    if (s[0] == 0x80) {
        *cp = 0x20ac; /* old GBK pages write the euro so */
        return 1;
    }
    if (s[0] == 0xff || n < 2)
        return 1;
    uint8_t trail = s[1];
    if (within(trail, 0x40, 0xfe) && trail != 0x7f) {
        *cp = hf_gbk_index[(s[0] - 0x81) * 190 + trail - (trail < 0x7f ? 0x40 : 0x41)];
        return 2;
    }
    if (n < 4)
        return 1;
    *cp = gb18030_four(s);
    return 4;
}

int64_t hf_cjk_gb18030(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_gbk();
    return decode(next_gb18030, out, s, n);
}

/* Number of a Big5 code, counted from 87 40; -1 where there is none. */
static inline int32_t big5_pointer(const uint8_t *s) {
    uint8_t trail = s[1];
    if (!within(s[0], 0x87, 0xfe) ||
        !(within(trail, 0x40, 0x7e) || within(trail, 0xa1, 0xfe)))
        return -1;
    return (s[0] - 0x87) * 157 + trail - (trail < 0x7f ? 0x40 : 0x62);
}

/* Four codes stand for a letter and a combining mark: no single step. */
static inline uint32_t big5_pair(const uint8_t *s, uint32_t *mark) {
    if (s[0] != 0x88 || (s[1] != 0x62 && s[1] != 0x64 && s[1] != 0xa3 && s[1] != 0xa5))
        return 0;
    *mark = s[1] == 0x62 || s[1] == 0xa3 ? 0x304 : 0x30c;
    return s[1] < 0x80 ? 0xca : 0xea;
}

int64_t hf_cjk_big5(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_big5();
    uint8_t *o = out;
    size_t i = 0;
    while (i < n) {
        size_t run = hf_utf8_copy_ascii(o, s + i, n - i);
        o += run;
        i += run;
        for (; i < n && s[i] >= 0x80; i += 2) {
            int32_t pointer = n - i < 2 ? -1 : big5_pointer(s + i);
            if (pointer < 0)
                return HF_EBAD;
            uint32_t mark = 0;
            uint32_t cp = hf_big5_index[pointer];
            if (cp == 0)
                cp = big5_pair(s + i, &mark);
            if (cp == 0)
                return HF_EBAD;
            o += hf_utf8_put(o, cp);
            if (mark != 0)
                o += hf_utf8_put(o, mark);
        }
    }
    return o - out;
}

static inline size_t next_euc_kr(const uint8_t *s, size_t n, uint32_t *cp) {
    if (n < 2 || !within(s[0], 0x81, 0xfe) || !within(s[1], 0x41, 0xfe))
        return 1;
    *cp = hf_euc_kr_index[(s[0] - 0x81) * 190 + s[1] - 0x41];
    return 2;
}

int64_t hf_cjk_euc_kr(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_euc_kr();
    return decode(next_euc_kr, out, s, n);
}

static inline size_t next_shift_jis(const uint8_t *s, size_t n, uint32_t *cp) {
    uint8_t lead = s[0];
    if (lead == 0x80 || within(lead, 0xa1, 0xdf)) {
        *cp = lead == 0x80 ? 0x80 : 0xff61u - 0xa1 + lead;
        return 1;
    }
    if (n < 2 || lead == 0xa0 || lead > 0xfc || !within(s[1], 0x40, 0xfc) ||
        s[1] == 0x7f)
        return 1;
    uint32_t pointer = (lead - (lead < 0xa0 ? 0x81u : 0xc1u)) * 188 + s[1] -
                       (s[1] < 0x7f ? 0x40u : 0x41u);
    if (pointer >= 8836 && pointer <= 10715)
        *cp = 0xe000 - 8836 + pointer; /* the user's own characters */
    else
        *cp = hf_jis0208_index[pointer];
    return 2;
}

int64_t hf_cjk_shift_jis(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_jis0208();
    return decode(next_shift_jis, out, s, n);
}

static inline size_t next_euc_jp(const uint8_t *s, size_t n, uint32_t *cp) {
    if (n < 2)
        return 1;
    if (s[0] == 0x8e && within(s[1], 0xa1, 0xdf)) {
        *cp = 0xff61u - 0xa1 + s[1];
        return 2;
    }
    if (s[0] == 0x8f) {
        if (n < 3 || !within(s[1], 0xa1, 0xfe) || !within(s[2], 0xa1, 0xfe))
            return 1;
        *cp = hf_jis0212_index[(s[1] - 0xa1) * 94 + s[2] - 0xa1];
        return 3;
    }
    if (!within(s[0], 0xa1, 0xfe) || !within(s[1], 0xa1, 0xfe))
        return 1;
    *cp = hf_jis0208_index[(s[0] - 0xa1) * 94 + s[1] - 0xa1];
    return 2;
}

int64_t hf_cjk_euc_jp(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_jis0208();
    hf_need_jis0212();
    return decode(next_euc_jp, out, s, n);
}

enum jis_mode { JIS_ASCII, JIS_ROMAN, JIS_KATAKANA, JIS_KANJI };

/* The mode that an escape sequence asks for, its length in *len; 0 when it is none. */
static enum jis_mode jis_escape(const uint8_t *s, size_t n, size_t *len) {
    *len = 0;
    if (n < 3)
        return JIS_ASCII;
    *len = 3;
    if (s[1] == '$' && (s[2] == '@' || s[2] == 'B'))
        return JIS_KANJI;
    if (s[1] == '(' && s[2] == 'J')
        return JIS_ROMAN;
    if (s[1] == '(' && s[2] == 'I')
        return JIS_KATAKANA;
    if (s[1] != '(' || s[2] != 'B')
        *len = 0;
    return JIS_ASCII;
}

/* One character in the given mode, as a step. */
static size_t jis_next(enum jis_mode mode, const uint8_t *s, size_t n, uint32_t *cp) {
    int shift = s[0] == 0x0e || s[0] == 0x0f; /* other ways to change the mode */
    *cp = 0;
    if (s[0] >= 0x80 || shift)
        return 1;
    switch (mode) {
    case JIS_ROMAN:
        *cp = s[0] == 0x5c ? 0xa5 : s[0] == 0x7e ? 0x203e : s[0];
        return 1;
    case JIS_KATAKANA:
        *cp = within(s[0], 0x21, 0x5f) ? 0xff61u - 0x21 + s[0] : 0;
        return 1;
    case JIS_KANJI:
        if (n < 2 || !within(s[0], 0x21, 0x7e) || !within(s[1], 0x21, 0x7e))
            return 1;
        *cp = hf_jis0208_index[(s[0] - 0x21) * 94 + s[1] - 0x21];
        return 2;
    case JIS_ASCII:
        break;
    }
    *cp = s[0];
    return 1;
}

int64_t hf_cjk_iso_2022_jp(uint8_t *out, const uint8_t *s, size_t n) {
    hf_need_jis0208();
    uint8_t *o = out;
    enum jis_mode mode = JIS_ASCII;
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        if (s[i] == 0x1b) {
            mode = jis_escape(s + i, n - i, &len);
            if (len == 0)
                return HF_EBAD;
            i += len;
            continue;
        }
        uint32_t cp = 0;
        size_t taken = jis_next(mode, s + i, n - i, &cp);
        if (cp == 0 && (s[i] != 0 || mode == JIS_KATAKANA || mode == JIS_KANJI))
            return HF_EBAD;
        i += taken;
        o += hf_utf8_put(o, cp);
    }
    return o - out;
}
