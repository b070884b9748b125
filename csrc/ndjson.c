#include "ndjson.h"

#include <string.h>

#include "base64.h"

size_t hf_json_string(uint8_t *out, const uint8_t *s, size_t n) {
    out[0] = '"';
    size_t len = hf_json_escape(out + 1, s, n);
    out[1 + len] = '"';
    return len + 2;
}

size_t hf_json_bytes(uint8_t *out, const uint8_t *s, size_t n) {
    out[0] = '"';
    int64_t checked = hf_json_escape_utf8(out + 1, s, n);
    size_t len = checked >= 0 ? (size_t)checked : hf_json_escape_latin1(out + 1, s, n);
    out[1 + len] = '"';
    return len + 2;
}

size_t hf_json_base64(uint8_t *out, const uint8_t *s, size_t n) {
    out[0] = '"';
    size_t len = hf_base64_encode(out + 1, s, n);
    out[1 + len] = '"';
    return len + 2;
}

size_t hf_json_u64(uint8_t *out, uint64_t v) {
    uint8_t digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

static uint64_t magnitude(int64_t v) {
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; /* INT64_MIN too */
}

size_t hf_json_i64(uint8_t *out, int64_t v) {
    if (v >= 0)
        return hf_json_u64(out, (uint64_t)v);
    out[0] = '-';
    return 1 + hf_json_u64(out + 1, magnitude(v));
}

/* Writes v with exactly count digits. */
static uint8_t *put_digits(uint8_t *out, uint32_t v, size_t count) {
    for (size_t i = count; i > 0; i--) {
        out[i - 1] = (uint8_t)('0' + v % 10);
        v /= 10;
    }
    return out + count;
}

size_t hf_json_us_as_seconds(uint8_t *out, int64_t us) {
    uint8_t *o = out;
    uint64_t v = magnitude(us);
    if (us < 0)
        *o++ = '-';
    o += hf_json_u64(o, v / 1000000);
    *o++ = '.';
    o = put_digits(o, (uint32_t)(v % 1000000), 6);
    for (int k = 0; k < 5 && o[-1] == '0'; k++)
        o--;
    return (size_t)(o - out);
}

/* Year, month and day of a day number, after Howard Hinnant's civil_from_days: days
 * counted from 0000-03-01, so that the leap day is the last of its year. */
static void civil(int64_t day, uint32_t *year, uint32_t *month, uint32_t *dom) {
    uint64_t z = (uint64_t)(day + 719468);
    uint32_t era = (uint32_t)(z / 146097);
    uint32_t doe = (uint32_t)(z % 146097);
    uint32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    uint32_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    uint32_t mp = (5 * doy + 2) / 153;
    *dom = doy - (153 * mp + 2) / 5 + 1;
    *month = mp < 10 ? mp + 3 : mp - 9;
    *year = yoe + era * 400 + (*month <= 2 ? 1 : 0);
}

size_t hf_json_time(uint8_t *out, int64_t us) {
    /* 0000-03-01 rather than January keeps civil() free of negative numbers. */
    const int64_t first = -62162035200000000;
    const int64_t last = 253402300799999999;
    us = us < first ? first : us > last ? last : us;
    int64_t day = us / 86400000000 - (us % 86400000000 < 0);
    uint32_t ms = (uint32_t)((us - day * 86400000000) / 1000);
    uint32_t year;
    uint32_t month;
    uint32_t dom;
    civil(day, &year, &month, &dom);
    uint8_t *o = out;
    *o++ = '"';
    o = put_digits(o, year, 4);
    *o++ = '-';
    o = put_digits(o, month, 2);
    *o++ = '-';
    o = put_digits(o, dom, 2);
    *o++ = 'T';
    o = put_digits(o, ms / 3600000, 2);
    *o++ = ':';
    o = put_digits(o, ms / 60000 % 60, 2);
    *o++ = ':';
    o = put_digits(o, ms / 1000 % 60, 2);
    *o++ = '.';
    o = put_digits(o, ms % 1000, 3);
    *o++ = 'Z';
    *o++ = '"';
    return (size_t)(o - out);
}
