/* libcurl as a table of functions, and our own declaration of its ABI.
 *
 * Numbers are libcurl's public, frozen ones (curl/curl.h, curl/multi.h, curl/urlapi.h);
 * those past 999 are curl-impersonate's. Nothing else in the project may spell one.
 * The table is how tests put another library, or one that misbehaves, under the core.
 * Not here: which option is set when (transfer.c) and what a result means (outcome.c).
 */
#ifndef HF_CURLABI_H
#define HF_CURLABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "err.h"

#define CURL_ERROR_SIZE 256 /* bytes of what CURLOPT_ERRORBUFFER names */

typedef struct hf_CURL CURL;
typedef struct hf_CURLM CURLM;
typedef struct hf_CURLSH CURLSH;
typedef struct hf_CURLU CURLU;
typedef int64_t curl_off_t;
typedef int curl_socket_t;

struct curl_slist {
    char *data;
    struct curl_slist *next;
};

struct curl_sockaddr {
    int family;
    int socktype;
    int protocol;
    unsigned int addrlen;
    struct sockaddr addr;
};

typedef struct CURLMsg {
    int msg;
    CURL *easy_handle;
    union {
        void *whatever;
        int result;
    } data;
} CURLMsg;

typedef struct curl_version_info_data {
    int age;
    const char *version;
    unsigned int version_num;
    const char *host;
    int features;
    const char *ssl_version;
    long ssl_version_num;
    const char *libz_version;
    const char *const *protocols;
    const char *ares;
    int ares_num;
    const char *libidn;
    int iconv_ver_num;
    const char *libssh_version;
    unsigned int brotli_ver_num;
    const char *brotli_version;
    unsigned int nghttp2_ver_num;
    const char *nghttp2_version;
    const char *quic_version;
} curl_version_info_data;

/* Option numbers: kind (long 0, pointer 10000, function 20000, off_t 30000) + number.
 */
enum {
    CURLOPT_WRITEDATA = 10001,
    CURLOPT_URL = 10002,
    CURLOPT_PROXY = 10004,
    CURLOPT_ERRORBUFFER = 10010,
    CURLOPT_WRITEFUNCTION = 20011,
    CURLOPT_POSTFIELDS = 10015,
    CURLOPT_USERAGENT = 10018,
    CURLOPT_COOKIE = 10022,
    CURLOPT_HTTPHEADER = 10023,
    CURLOPT_HEADERDATA = 10029,
    CURLOPT_COOKIEFILE = 10031,
    CURLOPT_SSLVERSION = 32,
    CURLOPT_CUSTOMREQUEST = 10036,
    CURLOPT_VERBOSE = 41,
    CURLOPT_NOPROGRESS = 43,
    CURLOPT_NOBODY = 44,
    CURLOPT_UPLOAD = 46,
    CURLOPT_POST = 47,
    CURLOPT_FOLLOWLOCATION = 52,
    CURLOPT_HTTPPROXYTUNNEL = 61,
    CURLOPT_SSL_VERIFYPEER = 64,
    CURLOPT_CAINFO = 10065,
    CURLOPT_MAXCONNECTS = 71,
    CURLOPT_FRESH_CONNECT = 74,
    CURLOPT_FORBID_REUSE = 75,
    CURLOPT_HEADERFUNCTION = 20079,
    CURLOPT_HTTPGET = 80,
    CURLOPT_SSL_VERIFYHOST = 81,
    CURLOPT_HTTP_VERSION = 84,
    CURLOPT_DNS_CACHE_TIMEOUT = 92,
    CURLOPT_DEBUGFUNCTION = 20094,
    CURLOPT_DEBUGDATA = 10095,
    CURLOPT_CAPATH = 10097,
    CURLOPT_BUFFERSIZE = 98,
    CURLOPT_NOSIGNAL = 99,
    CURLOPT_SHARE = 10100,
    CURLOPT_ACCEPT_ENCODING = 10102,
    CURLOPT_PRIVATE = 10103,
    CURLOPT_HTTPAUTH = 107,
    CURLOPT_SSL_CTX_FUNCTION = 20108,
    CURLOPT_SSL_CTX_DATA = 10109,
    CURLOPT_PROXYAUTH = 111,
    CURLOPT_IPRESOLVE = 113,
    CURLOPT_POSTFIELDSIZE_LARGE = 30120,
    CURLOPT_COOKIELIST = 10135,
    CURLOPT_SSL_SESSIONID_CACHE = 150,
    CURLOPT_TIMEOUT_MS = 155,
    CURLOPT_CONNECTTIMEOUT_MS = 156,
    CURLOPT_HTTP_TRANSFER_DECODING = 157,
    CURLOPT_HTTP_CONTENT_DECODING = 158,
    CURLOPT_OPENSOCKETFUNCTION = 20163,
    CURLOPT_OPENSOCKETDATA = 10164,
    CURLOPT_PROXYUSERNAME = 10175,
    CURLOPT_PROXYPASSWORD = 10176,
    CURLOPT_NOPROXY = 10177,
    CURLOPT_RESOLVE = 10203,
    CURLOPT_CLOSESOCKETFUNCTION = 20208,
    CURLOPT_CLOSESOCKETDATA = 10209,
    CURLOPT_DNS_SERVERS = 10211,
    CURLOPT_PATH_AS_IS = 234,
    CURLOPT_PIPEWAIT = 237,
    CURLOPT_PROXY_CAINFO = 10246,
    CURLOPT_PROXY_CAPATH = 10247,
    CURLOPT_PROXY_SSL_VERIFYPEER = 248,
    CURLOPT_PROXY_SSL_VERIFYHOST = 249,
    CURLOPT_SUPPRESS_CONNECT_HEADERS = 265,
    CURLOPT_SOCKS5_AUTH = 267,
    CURLOPT_CURLU = 10282,
    CURLOPT_HTTP09_ALLOWED = 285,
    CURLOPT_MAXAGE_CONN = 288,
    CURLOPT_RESOLVER_START_FUNCTION = 20272,
    CURLOPT_RESOLVER_START_DATA = 10273,
    CURLOPT_PREREQFUNCTION = 20312,
    CURLOPT_PREREQDATA = 10313,
    CURLOPT_MAXLIFETIME_CONN = 314,
    CURLOPT_PROTOCOLS_STR = 10318,
    CURLOPT_REDIR_PROTOCOLS_STR = 10319,
    CURLOPT_CA_CACHE_TIMEOUT = 321,
    CURLOPT_QUICK_EXIT = 322,
    CURLOPT_ECH = 10325,
    CURLOPT_PROXY_CREDENTIAL_NO_REUSE = 1022
};

enum {
    CURLINFO_EFFECTIVE_URL = 0x100001,
    CURLINFO_RESPONSE_CODE = 0x200002,
    CURLINFO_PRIVATE = 0x100015,
    CURLINFO_HTTP_CONNECTCODE = 0x200016,
    CURLINFO_OS_ERRNO = 0x200019,
    CURLINFO_NUM_CONNECTS = 0x20001a,
    CURLINFO_PRIMARY_IP = 0x100020,
    CURLINFO_PRIMARY_PORT = 0x200028,
    CURLINFO_HTTP_VERSION = 0x20002e,
    CURLINFO_SSL_VERIFYRESULT = 0x20000d,
    CURLINFO_CONTENT_LENGTH_DOWNLOAD_T = 0x60000f,
    CURLINFO_TOTAL_TIME_T = 0x600032,
    CURLINFO_NAMELOOKUP_TIME_T = 0x600033,
    CURLINFO_CONNECT_TIME_T = 0x600034,
    CURLINFO_PRETRANSFER_TIME_T = 0x600035,
    CURLINFO_STARTTRANSFER_TIME_T = 0x600036,
    CURLINFO_APPCONNECT_TIME_T = 0x600038,
    CURLINFO_PROXY_SSL_VERIFYRESULT = 0x20002f,
    CURLINFO_PROXY_ERROR = 0x20003b,
    CURLINFO_ACTIVESOCKET = 0x50002c,
    CURLINFO_CONN_ID = 0x600040
};

enum {
    CURLMOPT_SOCKETFUNCTION = 20001,
    CURLMOPT_SOCKETDATA = 10002,
    CURLMOPT_PIPELINING = 3,
    CURLMOPT_TIMERFUNCTION = 20004,
    CURLMOPT_TIMERDATA = 10005,
    CURLMOPT_MAXCONNECTS = 6,
    CURLMOPT_NETWORK_CHANGED = 17,
    CURLMOPT_NOTIFYFUNCTION = 20018,
    CURLMOPT_NOTIFYDATA = 10019,
    CURLMOPT_QUICK_EXIT = 21
};

/* CURLcode values that the core tells apart; others are handled by phase alone. */
enum {
    CURLE_OK = 0,
    CURLE_UNSUPPORTED_PROTOCOL = 1,
    CURLE_URL_MALFORMAT = 3,
    CURLE_COULDNT_RESOLVE_PROXY = 5,
    CURLE_COULDNT_RESOLVE_HOST = 6,
    CURLE_COULDNT_CONNECT = 7,
    CURLE_WEIRD_SERVER_REPLY = 8,
    CURLE_HTTP2 = 16,
    CURLE_PARTIAL_FILE = 18,
    CURLE_WRITE_ERROR = 23,
    CURLE_READ_ERROR = 26,
    CURLE_OUT_OF_MEMORY = 27,
    CURLE_OPERATION_TIMEDOUT = 28,
    CURLE_SSL_CONNECT_ERROR = 35,
    CURLE_ABORTED_BY_CALLBACK = 42,
    CURLE_TOO_MANY_REDIRECTS = 47,
    CURLE_GOT_NOTHING = 52,
    CURLE_SEND_ERROR = 55,
    CURLE_RECV_ERROR = 56,
    CURLE_SSL_CERTPROBLEM = 58,
    CURLE_PEER_FAILED_VERIFICATION = 60,
    CURLE_BAD_CONTENT_ENCODING = 61,
    CURLE_SSL_CACERT_BADFILE = 77,
    CURLE_SSL_SHUTDOWN_FAILED = 80,
    CURLE_HTTP2_STREAM = 92,
    CURLE_HTTP3 = 95,
    CURLE_QUIC_CONNECT_ERROR = 96,
    CURLE_PROXY = 97,
    CURLE_TOO_LARGE = 100
};

enum {
    CURL_POLL_NONE = 0,
    CURL_POLL_IN = 1,
    CURL_POLL_OUT = 2,
    CURL_POLL_INOUT = 3,
    CURL_POLL_REMOVE = 4,
    CURL_CSELECT_IN = 1,
    CURL_CSELECT_OUT = 2,
    CURL_CSELECT_ERR = 4,
    CURL_SOCKET_TIMEOUT = -1,
    CURL_SOCKET_BAD = -1,
    CURLMSG_DONE = 1,
    CURL_GLOBAL_ALL = 3,
    CURL_IPRESOLVE_WHATEVER = 0,
    CURL_IPRESOLVE_V4 = 1,
    CURL_IPRESOLVE_V6 = 2,
    CURLAUTH_BASIC = 1,
    CURL_HTTP_VERSION_NONE = 0,
    CURL_HTTP_VERSION_1_0 = 1,
    CURL_HTTP_VERSION_1_1 = 2,
    CURL_HTTP_VERSION_2_0 = 3,
    CURL_HTTP_VERSION_2TLS = 4,
    CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE = 5,
    CURL_HTTP_VERSION_3 = 30,
    CURL_HTTP_VERSION_3ONLY = 31,
    CURLSHOPT_SHARE = 1,
    CURL_LOCK_DATA_COOKIE = 2,
    CURL_LOCK_DATA_DNS = 3,
    CURL_LOCK_DATA_SSL_SESSION = 4,
    CURL_PREREQFUNC_OK = 0,
    CURL_PREREQFUNC_ABORT = 1,
    CURL_WRITEFUNC_ERROR = -1,
    CURLPIPE_NOTHING = 0,
    CURLPIPE_MULTIPLEX = 2,
    CURLMNWC_CLEAR_CONNS = 1
};

/* curl_url parts and flags. */
enum {
    CURLUPART_URL = 0,
    CURLUPART_SCHEME = 1,
    CURLUPART_USER = 2,
    CURLUPART_PASSWORD = 3,
    CURLUPART_OPTIONS = 4,
    CURLUPART_HOST = 5,
    CURLUPART_PORT = 6,
    CURLUPART_PATH = 7,
    CURLUPART_QUERY = 8,
    CURLUPART_FRAGMENT = 9,
    CURLUPART_ZONEID = 10,
    CURLU_DEFAULT_PORT = 1 << 0,
    CURLU_NO_DEFAULT_PORT = 1 << 1,
    CURLU_PATH_AS_IS = 1 << 4,
    CURLU_URLDECODE = 1 << 6,
    CURLU_URLENCODE = 1 << 7,
    CURLU_APPENDQUERY = 1 << 8,
    CURLU_ALLOW_SPACE = 1 << 11,
    CURLU_PUNYCODE = 1 << 12
};

/* zlib, brotli and zstd decoders, as far as decode.c uses them. */
typedef struct hf_z_stream {
    const unsigned char *next_in;
    unsigned int avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned int avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned int, unsigned int);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} hf_z_stream;

typedef struct hf_zstd_in {
    const void *src;
    size_t size;
    size_t pos;
} hf_zstd_in;

typedef struct hf_zstd_out {
    void *dst;
    size_t size;
    size_t pos;
} hf_zstd_out;

struct curl_header {
    char *name;
    char *value;
    size_t amount;
    size_t index;
    unsigned origin;
    void *anchor;
};

enum { CURLH_CONNECT = 1 << 2 };

enum {
    HF_Z_NO_FLUSH = 0,
    HF_Z_OK = 0,
    HF_Z_STREAM_END = 1,
    HF_Z_BUF_ERROR = -5,
    HF_BROTLI_ERROR = 0,
    HF_BROTLI_SUCCESS = 1,
    HF_BROTLI_NEED_IN = 2,
    HF_BROTLI_NEED_OUT = 3,
    HF_ZSTD_D_WINDOW_LOG_MAX = 100,
    HF_ZSTD_RESET_SESSION = 1
};

/* Each needed function: result, name, arguments. */
#define HF_CURL_NEEDED(X)                                                         \
    X(int, curl_global_init, (long flags))                                        \
    X(curl_version_info_data *, curl_version_info, (int age))                     \
    X(char *, curl_version, (void))                                               \
    X(CURL *, curl_easy_init, (void))                                             \
    X(void, curl_easy_cleanup, (CURL * easy))                                     \
    X(int, curl_easy_setopt, (CURL * easy, int option, ...))                      \
    X(int, curl_easy_getinfo, (CURL * easy, int info, ...))                       \
    X(void, curl_easy_reset, (CURL * easy))                                       \
    X(const char *, curl_easy_strerror, (int code))                               \
    X(CURLM *, curl_multi_init, (void))                                           \
    X(int, curl_multi_cleanup, (CURLM * multi))                                   \
    X(int, curl_multi_setopt, (CURLM * multi, int option, ...))                   \
    X(int, curl_multi_add_handle, (CURLM * multi, CURL * easy))                   \
    X(int, curl_multi_remove_handle, (CURLM * multi, CURL * easy))                \
    X(int, curl_multi_socket_action,                                              \
      (CURLM * multi, curl_socket_t s, int events, int *running))                 \
    X(int, curl_multi_assign, (CURLM * multi, curl_socket_t s, void *p))          \
    X(int, curl_multi_timeout, (CURLM * multi, long *timeout_ms))                 \
    X(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *left))                \
    X(const char *, curl_multi_strerror, (int code))                              \
    X(struct curl_slist *, curl_slist_append,                                     \
      (struct curl_slist * list, const char *text))                               \
    X(void, curl_slist_free_all, (struct curl_slist * list))                      \
    X(void, curl_free, (void *p))                                                 \
    X(CURLU *, curl_url, (void))                                                  \
    X(void, curl_url_cleanup, (CURLU * u))                                        \
    X(CURLU *, curl_url_dup, (const CURLU *u))                                    \
    X(int, curl_url_get, (const CURLU *u, int part, char **text, unsigned flags)) \
    X(int, curl_url_set, (CURLU * u, int part, const char *text, unsigned flags)) \
    X(const char *, curl_url_strerror, (int code))                                \
    X(CURLSH *, curl_share_init, (void))                                          \
    X(int, curl_share_setopt, (CURLSH * share, int option, ...))                  \
    X(int, curl_share_cleanup, (CURLSH * share))

/* Functions that may be absent: NULL then, and `doctor` names them. */
#define HF_CURL_OPTIONAL(X)                                                           \
    X(int, curl_easy_impersonate,                                                     \
      (CURL * easy, const char *target, int default_headers))                         \
    X(int, curl_easy_header,                                                          \
      (CURL * easy, const char *name, size_t index, unsigned origin, int request,     \
       struct curl_header **out))                                                     \
    X(int, curl_global_init_mem,                                                      \
      (long flags, void *(*m)(size_t), void (*f)(void *), void *(*r)(void *, size_t), \
       char *(*s)(const char *), void *(*c)(size_t, size_t)))                         \
    X(int, curl_multi_notify_enable, (CURLM * multi, unsigned int notification))      \
    X(int, curl_easy_ssls_export,                                                     \
      (CURL * easy,                                                                   \
       int (*each)(CURL *, void *, const char *, const unsigned char *, size_t,       \
                   const unsigned char *, size_t, curl_off_t, int, const char *,      \
                   size_t),                                                           \
       void *data))                                                                   \
    X(int, curl_easy_ssls_import,                                                     \
      (CURL * easy, const char *key, const unsigned char *shmac, size_t shmac_len,    \
       const unsigned char *sdata, size_t sdata_len))                                 \
    X(int, inflateInit2_, (hf_z_stream * z, int bits, const char *version, int size)) \
    X(int, inflate, (hf_z_stream * z, int flush))                                     \
    X(int, inflateReset2, (hf_z_stream * z, int bits))                                \
    X(int, inflateEnd, (hf_z_stream * z))                                             \
    X(void *, BrotliDecoderCreateInstance, (void *alloc, void *free, void *opaque))   \
    X(int, BrotliDecoderDecompressStream,                                             \
      (void *s, size_t *avail_in, const uint8_t **next_in, size_t *avail_out,         \
       uint8_t **next_out, size_t *total_out))                                        \
    X(int, BrotliDecoderIsFinished, (const void *s))                                  \
    X(void, BrotliDecoderDestroyInstance, (void *s))                                  \
    X(void *, ZSTD_createDCtx, (void))                                                \
    X(size_t, ZSTD_freeDCtx, (void *ctx))                                             \
    X(size_t, ZSTD_decompressStream, (void *ctx, hf_zstd_out *out, hf_zstd_in *in))   \
    X(size_t, ZSTD_DCtx_reset, (void *ctx, int directive))                            \
    X(size_t, ZSTD_DCtx_setParameter, (void *ctx, int parameter, int value))          \
    X(unsigned, ZSTD_isError, (size_t code))

typedef struct hf_curl {
#define HF_CURL_FIELD(ret, name, args) ret(*name) args;
    HF_CURL_NEEDED(HF_CURL_FIELD)
    HF_CURL_OPTIONAL(HF_CURL_FIELD)
#undef HF_CURL_FIELD
    void *handle;      /* dlopen's; never closed, since libcurl keeps threads' state */
    unsigned version;  /* 0xMMmmpp */
    bool impersonates; /* curl_easy_impersonate is there */
    bool decodes;      /* zlib's functions are there, so that we decode */
    bool brotli;       /* brotli's too */
    bool zstd;         /* and zstd's */
    char path[4096];   /* file that was loaded */
    char missing[512]; /* absent optional functions, separated by blanks */
} hf_curl;

/* Fills the table from the shared object at path and initialises libcurl.
 * Thread: any, one at a time. The file stays loaded for the life of the process.
 * Returns 0, or HF_ELIB with the missing symbol or the unfit version in err.
 */
int hf_curl_load(hf_curl *c, const char *path, hf_errbuf err);

#endif
