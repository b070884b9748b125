/* Lets curl_cffi's shared object be loaded by a program that is not Python.
 *
 * It wants a few names of CPython and never uses them for libcurl's sake, so addresses
 * will do. The program must be linked with its symbols exported (-rdynamic; CMake:
 * CMAKE_ENABLE_EXPORTS). Include it once per program.
 */
#ifndef BENCH_LIBCURL_H
#define BENCH_LIBCURL_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../tests/c/fake_python.c"
#include "curlabi.h"

/* The path in HARDFETCH_LIBCURL; ends the program when it is not set. */
static inline const char *libcurl_path(void) {
    const char *path = getenv("HARDFETCH_LIBCURL");
    if (path == NULL || path[0] == '\0') {
        fprintf(stderr, "set HARDFETCH_LIBCURL to curl_cffi's _wrapper.abi3.so\n");
        exit(2);
    }
    /* Python has it loaded, and curl_cffi's file counts on that. */
    (void)dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
    return path;
}

#endif
