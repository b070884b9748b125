#include "curlabi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "magazine.h"

/* 7.87: QUICK_EXIT and CA_CACHE_TIMEOUT, without which a dead name server blocks the
 * loop and each handshake parses the CA bundle again. */
#define OLDEST 0x075700u

/* A data pointer from dlsym becomes a function pointer; POSIX allows it, ISO C has no
 * cast for it. */
static void assign(void *slot, void *symbol) {
    memcpy(slot, &symbol, sizeof symbol);
}

static int need(hf_curl *c, const char *name, void *slot, hf_errbuf err) {
    void *symbol = dlsym(c->handle, name);
    assign(slot, symbol);
    if (symbol != NULL) {
        return 0;
    }
    return hf_fail(err, HF_ELIB,
                   "libcurl at %s does not export %s; install curl_cffi 0.17 or newer, "
                   "or point HARDFETCH_LIBCURL at a libcurl 7.87 or newer",
                   c->path, name);
}

static void want(hf_curl *c, const char *name, void *slot) {
    void *symbol = dlsym(c->handle, name);
    assign(slot, symbol);
    if (symbol == NULL) {
        size_t used = strlen(c->missing);
        snprintf(c->missing + used, sizeof c->missing - used, "%s%s",
                 used > 0 ? " " : "", name);
    }
}

int hf_curl_load(hf_curl *c, const char *path, hf_errbuf err) {
    memset(c, 0, sizeof *c);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (c->handle == NULL) {
        return hf_fail(err, HF_ELIB, "cannot load libcurl from %s: %s", path,
                       dlerror());
    }
#define HF_CURL_NEED(ret, name, args)       \
    if (need(c, #name, &c->name, err) != 0) \
        return HF_ELIB;
    HF_CURL_NEEDED(HF_CURL_NEED)
#undef HF_CURL_NEED
#define HF_CURL_WANT(ret, name, args) want(c, #name, &c->name);
    HF_CURL_OPTIONAL(HF_CURL_WANT)
#undef HF_CURL_WANT
    c->impersonates = c->curl_easy_impersonate != NULL;
    c->decodes = c->inflateInit2_ != NULL && c->inflate != NULL &&
                 c->inflateReset2 != NULL && c->inflateEnd != NULL;
    c->brotli = c->BrotliDecoderCreateInstance != NULL &&
                c->BrotliDecoderDecompressStream != NULL &&
                c->BrotliDecoderIsFinished != NULL &&
                c->BrotliDecoderDestroyInstance != NULL;
    c->zstd = c->ZSTD_createDCtx != NULL && c->ZSTD_freeDCtx != NULL &&
              c->ZSTD_decompressStream != NULL && c->ZSTD_isError != NULL &&
              c->ZSTD_DCtx_reset != NULL && c->ZSTD_DCtx_setParameter != NULL;
    c->version = c->curl_version_info(0)->version_num;
    if (c->version < OLDEST) {
        return hf_fail(err, HF_ELIB,
                       "libcurl %u.%u.%u at %s is too old; 7.87.0 or newer is needed",
                       c->version >> 16, c->version >> 8 & 0xff, c->version & 0xff,
                       path);
    }
    int rc = hf_magazine_init_libcurl(c);
    if (rc != 0) {
        return hf_fail(err, HF_ELIB, "curl_global_init failed with code %d", rc);
    }
    return 0;
}
