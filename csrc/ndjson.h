/* Writing JSON values into memory of the caller.
 *
 * Each function writes at out, returns the count of bytes, and adds no terminator. None
 * checks for room: the caller has made it, by hf_json_room and HF_JSON_NUMBER. It is
 * no document model: commas, colons and brackets are the caller's. No state, no
 * allocation, no floating point; any thread.
 */
#ifndef HF_NDJSON_H
#define HF_NDJSON_H

#include <stddef.h>
#include <stdint.h>

#include "escape.h"

/* Bytes that hold any number or time written here. */
#define HF_JSON_NUMBER 32

/* Quotes around valid UTF-8. Room: hf_json_room(n). */
size_t hf_json_string(uint8_t *out, const uint8_t *s, size_t n);

/* Quotes around any bytes: UTF-8 where valid, else each byte as its Latin-1 character.
 * Room: hf_json_room(n). */
size_t hf_json_bytes(uint8_t *out, const uint8_t *s, size_t n);

/* Quotes around the base64 of any bytes. Room: hf_base64_size(n) + 2. */
size_t hf_json_base64(uint8_t *out, const uint8_t *s, size_t n);

size_t hf_json_u64(uint8_t *out, uint64_t v);
size_t hf_json_i64(uint8_t *out, int64_t v);

/* Microseconds as decimal seconds, exact, without zeroes that tell nothing but always
 * with one digit behind the point: 1500000 is 1.5, 0 is 0.0. */
size_t hf_json_us_as_seconds(uint8_t *out, int64_t us);

/* Microseconds since 1970 as a quoted RFC 3339 time in UTC, milliseconds rounded down:
 * "2024-02-29T23:59:59.999Z". Times outside the years 0001 to 9999 become the nearest
 * that fits. */
size_t hf_json_time(uint8_t *out, int64_t us);

#endif
