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

/* The digits of 0 to 99: two at a time halve the divisions. */
static const char pairs[200] = "00010203040506070809101112131415161718192021222324"
                               "25262728293031323334353637383940414243444546474849"
                               "50515253545556575859606162636465666768697071727374"
                               "75767778798081828384858687888990919293949596979899";

static inline uint8_t *put_pair(uint8_t *out, uint32_t v) {
    memcpy(out, pairs + 2 * (size_t)v, 2);
    return out + 2;
}

size_t hf_json_u64(uint8_t *out, uint64_t v) {
    uint8_t digits[20];
    size_t at = sizeof digits;
    while (v >= 100) {
        at -= 2;
        put_pair(digits + at, (uint32_t)(v % 100));
        v /= 100;
    }
    if (v >= 10) {
        at -= 2;
        put_pair(digits + at, (uint32_t)v);
    } else {
        digits[--at] = (uint8_t)('0' + v);
    }
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

size_t hf_json_us_as_seconds(uint8_t *out, int64_t us) {
    uint8_t *o = out;
    uint64_t v = magnitude(us);
    if (us < 0)
        *o++ = '-';
    uint64_t whole = v / 1000000;
    uint32_t part = (uint32_t)(v - whole * 1000000);
    if (whole < 10) { /* nearly always */
        *o++ = (uint8_t)('0' + whole);
    } else {
        o += hf_json_u64(o, whole);
    }
    *o++ = '.';
    o = put_pair(o, part / 10000);
    o = put_pair(o, part / 100 % 100);
    o = put_pair(o, part % 100);
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
    o = put_pair(o, year / 100);
    o = put_pair(o, year % 100);
    *o++ = '-';
    o = put_pair(o, month);
    *o++ = '-';
    o = put_pair(o, dom);
    *o++ = 'T';
    o = put_pair(o, ms / 3600000);
    *o++ = ':';
    o = put_pair(o, ms / 60000 % 60);
    *o++ = ':';
    o = put_pair(o, ms / 1000 % 60);
    *o++ = '.';
    *o++ = (uint8_t)('0' + ms % 1000 / 100);
    o = put_pair(o, ms % 100);
    *o++ = 'Z';
    *o++ = '"';
    return (size_t)(o - out);
}
