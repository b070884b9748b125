/* What libcurl at a path is, and the names of the closed lists, for callers without an
 * engine. Contracts: api.h.
 */
#include <stdlib.h>
#include <string.h>

#include "curlabi.h"
#include "hf.h"

int hf_library_probe(const char *path, hf_library *out, char *err, size_t errlen) {
    hf_curl *c = calloc(1, sizeof *c);
    memset(out, 0, sizeof *out);
    if (c == NULL) {
        return HF_ENOMEM;
    }
    int rc = hf_curl_load(c, path, (hf_errbuf){err, errlen});
    if (rc == 0) {
        strncpy(out->version, c->curl_version(), sizeof out->version - 1);
        memcpy(out->missing, c->missing, sizeof out->missing);
        out->version_num = (int32_t)c->version;
        out->impersonates = c->impersonates;
        out->decodes = c->decodes;
    }
    free(c);
    return rc;
}

int hf_library_impersonates(const char *path, const char *target) {
    hf_curl *c = calloc(1, sizeof *c);
    int known = 0;
    if (c != NULL && hf_curl_load(c, path, (hf_errbuf){NULL, 0}) == 0 &&
        c->impersonates) {
        CURL *easy = c->curl_easy_init();
        known = easy != NULL && c->curl_easy_impersonate(easy, target, 1) == 0;
        if (easy != NULL) {
            c->curl_easy_cleanup(easy);
        }
    }
    free(c);
    return known;
}

const char *hf_name_type(int32_t type) {
    return type >= 0 && type < HF_T_COUNT ? hf_type_name(type) : NULL;
}

const char *hf_name_phase(int32_t phase) {
    return phase >= 0 && phase < HF_P_COUNT ? hf_phase_name(phase) : NULL;
}

const char *hf_name_origin(int32_t origin) {
    return origin >= 0 && origin < HF_O_COUNT ? hf_origin_name(origin) : NULL;
}

const char *hf_name_code(int32_t code) {
    return hf_code_name(code);
}
