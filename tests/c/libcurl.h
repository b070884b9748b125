/* The libcurl that a test runs with: the file that HARDFETCH_LIBCURL names. */
#ifndef TEST_LIBCURL_H
#define TEST_LIBCURL_H

#include <dlfcn.h>

#include "check.h"
#include "curlabi.h"

/* Loads the table or ends the program: a test without its library proves nothing. */
static inline void load_libcurl(hf_curl *c) {
    char text[512] = "";
    const char *path = getenv("HARDFETCH_LIBCURL");
    if (path == NULL || path[0] == '\0') {
        fprintf(stderr, "set HARDFETCH_LIBCURL to the path of curl_cffi's "
                        "_wrapper.abi3.so\n");
        exit(1);
    }
    /* curl_cffi's file counts on the process to have these loaded, as Python has. */
    (void)dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
    (void)dlopen(HF_FAKE_DIR "/fake_python.so", RTLD_NOW | RTLD_GLOBAL);
    if (hf_curl_load(c, path, (hf_errbuf){text, sizeof text}) != 0) {
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
}

static inline int check_text(const char *got, const char *want, const char *file,
                             int line) {
    check_count++;
    if (got == NULL || strcmp(got, want) != 0) {
        check_failures++;
        fprintf(stderr, "%s:%d: '%s', not '%s'\n", file, line, got ? got : "(null)",
                want);
        return 0;
    }
    return 1;
}
#define CHECK_TEXT(got, want) check_text((got), (want), __FILE__, __LINE__)

#endif
