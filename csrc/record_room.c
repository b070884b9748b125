#include <string.h>

#include "ndjson.h"
#include "record_head.h"

/* Room for keys, numbers, fixed words and closed-list names of one record. */
#define FIXED_ROOM 2048
/* The same for each element of a list: brackets, keys, numbers. */
#define ELEMENT_ROOM 256

/* Heads above this are looked through for what they need; less is not worth it. */
#define COUNTED_FROM 4096

/* What to take for the length of the headers. Each line holds two bytes of its own at
 * least and a pair takes 8 more, so twice its bytes are enough, six times that if all
 * is escaped. Of a large head that would be megabytes, most of them for nothing. */
static size_t headers_text(const hf_response *resp) {
    const uint8_t *p = resp->head.data;
    size_t n = resp->head.len;
    if (n < COUNTED_FROM) {
        return 2 * n;
    }
    size_t odd = 0;
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) {
        odd += p[i] < 0x20 || p[i] > 0x7e || p[i] == '"' || p[i] == '\\';
        lines += p[i] == '\n';
    }
    return (n + 5 * odd + 8 * lines) / 6 + 1;
}

size_t hf_record_head_room(const hf_encoder *e, const hf_request *r,
                           const hf_response *resp, const hf_facts *facts) {
    size_t text = 4 * (size_t)r->input.n + r->id.n + r->meta.n;
    text += hf_request_method(e->settings, r).n;
    text += r->url.len + 2 * sizeof r->outcome.message + sizeof r->denied;
    text += facts->proxy != NULL ? strlen(facts->proxy) : 0;
    text += facts->impersonate != NULL ? strlen(facts->impersonate) : 0;
    size_t elements = (size_t)r->n_attempts;
    for (int32_t i = 0; i < r->n_attempts; i++) {
        text += r->attempts[i].proxy != NULL ? strlen(r->attempts[i].proxy) : 0;
    }
    if (resp != NULL) {
        text += hf_record_shows_headers(e->settings, resp) ? headers_text(resp) : 0;
        text += resp->content_type.len + resp->final.len;
        text += resp->final.text != NULL && resp->final.fragment != NULL
                    ? strlen(resp->final.fragment)
                    : 0;
        for (int32_t i = 0; i < resp->n_hops; i++) {
            text += resp->hops[i].len + strlen(resp->hops[i].url);
        }
        elements += (size_t)resp->n_hops;
    }
    return FIXED_ROOM + hf_json_room(text) + elements * ELEMENT_ROOM;
}
