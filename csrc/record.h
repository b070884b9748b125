/* A request and what came of it, as one record: an NDJSON line, or a frame for the
 * object API. Fields, names and null rules are the contract's
 * (hardfetch/record.schema.json).
 *
 * Invariant: whatever bytes came in, what goes out is one line of valid JSON in valid
 * UTF-8, or nothing at all. It writes into a ring and knows no sink.
 */
#ifndef HF_RECORD_H
#define HF_RECORD_H

#include "config.h"
#include "request.h"
#include "response.h"
#include "ring.h"
#include "text.h"

#define HF_FIELD_LIST(X) \
    X(schema)            \
    X(seq)               \
    X(id)                \
    X(input)             \
    X(url)               \
    X(final_url)         \
    X(method)            \
    X(status_code)       \
    X(http_version)      \
    X(headers)           \
    X(content_type)      \
    X(charset)           \
    X(charset_source)    \
    X(size)              \
    X(wire_size)         \
    X(decoded)           \
    X(truncated)         \
    X(redirects)         \
    X(remote_ip)         \
    X(remote_port)       \
    X(reused)            \
    X(proxy)             \
    X(impersonate)       \
    X(attempts)          \
    X(timing)            \
    X(elapsed)           \
    X(limits)            \
    X(error)             \
    X(fetched_at)        \
    X(meta)              \
    X(body)

#define HF_FIELD_ENUM(name) HF_F_##name,
enum { HF_FIELD_LIST(HF_FIELD_ENUM) HF_F_COUNT };
#undef HF_FIELD_ENUM

/* The bit set of the named fields, all for NULL.
 * Returns 0 or HF_EINVAL naming the first unknown one. */
int hf_record_fields(const char *const *names, uint64_t *out, hf_errbuf err);

/* What encoding needs besides the request; one per shard. */
typedef struct hf_encoder {
    const hf_settings *settings;
    hf_text_ctx *text;
    hf_buf scratch; /* for records that don't fit the ring in one piece */
} hf_encoder;

int hf_encoder_init(hf_encoder *e, const hf_settings *settings);
void hf_encoder_free(hf_encoder *e);

/* What the record tells besides request and response. */
typedef struct hf_facts {
    const char *proxy; /* of the last attempt, without credentials; NULL = direct */
    const char *impersonate; /* NULL = none */
    int64_t now;             /* us, monotonic */
} hf_facts;

/* Publishes the record of r in the ring. resp is NULL when no attempt was made.
 * Thread: the shard's owner.  Blocks: no.
 * Returns 0, HF_EFULL when the ring has no room now (nothing was written), HF_ENOMEM.
 */
int hf_record_write(hf_encoder *e, hf_ring *ring, const hf_request *r,
                    const hf_response *resp, const hf_facts *facts);

/* The line of what was published as a frame: what hf_record_write puts with
 * HF_OUTPUT_LINES. head is the frame's line, form its form of the body. e needs no
 * settings.
 * Valid:  the line in e->scratch until the next call with e.
 * Thread: any, one at a time with the same e.  Blocks: no.
 * Returns 0, HF_EINVAL for what is no head, HF_EFULL, HF_ENOMEM. */
int hf_record_line(hf_encoder *e, const uint8_t *head, size_t head_len,
                   const uint8_t *body, size_t n, uint64_t form);

#endif
