#include "err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HF_TYPE_NAME(id, name) name,
static const char *const type_names[] = {HF_TYPE_LIST(HF_TYPE_NAME)};
#undef HF_TYPE_NAME

static const char *const phase_names[] = {"queue", "dns",   "connect",    "proxy",
                                          "tls",   "send",  "first_byte", "headers",
                                          "body",  "decode"};
static const char *const origin_names[] = {"site", "proxy", "local"};
static const char *const code_names[] = {
    "ok",          "full",   "again",        "end",      "out of memory",
    "bad value",   "system", "libcurl",      "forked",   "closed",
    "interrupted", "pipe",   "input/output", "bad bytes"};

const char *hf_type_name(int type) {
    return type >= 0 && type < HF_T_COUNT ? type_names[type] : "internal";
}

const char *hf_phase_name(int phase) {
    return phase >= 0 && phase < HF_P_COUNT ? phase_names[phase] : "internal";
}

const char *hf_origin_name(int origin) {
    return origin >= 0 && origin < HF_O_COUNT ? origin_names[origin] : "internal";
}

const char *hf_code_name(int code) {
    int n = (int)(sizeof code_names / sizeof code_names[0]);
    return code <= 0 && code > -n ? code_names[-code] : "internal";
}

int hf_fail(hf_errbuf err, int code, const char *fmt, ...) {
    if (err.text != NULL && err.cap > 0) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err.text, err.cap, fmt, ap);
        va_end(ap);
    }
    return code;
}

int hf_fail_sys(hf_errbuf err, const char *operation) {
    char text[128];
    int saved = errno;
    /* The GNU strerror_r returns the text, the POSIX one fills the buffer. */
    snprintf(text, sizeof text, "errno %d", saved);
#if defined(__GLIBC__)
    const char *s = strerror_r(saved, text, sizeof text);
#else
    const char *s = strerror_r(saved, text, sizeof text) == 0 ? text : "unknown error";
#endif
    errno = saved;
    return hf_fail(err, HF_ESYS, "%s: %s", operation, s);
}
