/* The engine's own copy of its configuration, checked and read-only once it runs. */
#ifndef HF_CONFIG_H
#define HF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "curlabi.h"
#include "hf.h"
#include "netaddr.h"

/* Limits of one request, us; 0 = off. */
typedef struct hf_limits {
    int64_t connect;
    int64_t first_byte;
    int64_t idle;
    int64_t soft;
    int64_t hard;
    int64_t job;
} hf_limits;

typedef struct hf_settings {
    hf_config c; /* its pointers are into `arena` */
    hf_limits limits;
    hf_curl curl;
    hf_nets nets;    /* let through in spite of deny_private */
    uint64_t fields; /* bit f: field HF_F_f is written */
    uint64_t hidden; /* bit f: it is, but is not wanted in a line; the bit behind the
                        last field: nor is the list of headers. Of frames */
    void *arena;     /* owned */
} hf_settings;

/* Copies and checks cfg and loads libcurl.
 * Returns 0, HF_EINVAL naming the field, HF_ELIB or HF_ENOMEM, with err set.
 */
int hf_settings_init(hf_settings *s, const hf_config *cfg, hf_errbuf err);
void hf_settings_free(hf_settings *s);

#endif
