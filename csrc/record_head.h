/* All of a record but its body: the fields, in the order of the contract.
 *
 * They are written into memory with room for the worst case, so nothing here can fail.
 * For record.c.
 */
#ifndef HF_RECORD_HEAD_H
#define HF_RECORD_HEAD_H

#include <string.h>

#include "record.h"

/* Where a record is being written: room has been made for what is put. */
typedef struct hf_pen {
    const hf_encoder *e;
    const hf_request *r;
    const hf_response *resp;
    const hf_facts *facts;
    const hf_text *text;
    uint8_t *p;
    bool first; /* no field stands before the body */
} hf_pen;

#define HF_PUT(pen, literal) hf_pen_put(pen, literal, sizeof(literal) - 1)

static inline void hf_pen_put(hf_pen *w, const char *s, size_t n) {
    memcpy(w->p, s, n);
    w->p += n;
}

/* Whether a record of the response tells its headers. */
static inline bool hf_record_shows_headers(const hf_settings *s,
                                           const hf_response *resp) {
    return resp != NULL && resp->status != 0 && s->c.headers;
}

/* Bytes that all but the body may take: record_room.c. */
size_t hf_record_head_room(const hf_encoder *e, const hf_request *r,
                           const hf_response *resp, const hf_facts *facts);

/* Writes the opening brace and all wanted fields but the body. */
void hf_record_put_head(hf_pen *w);

#endif
