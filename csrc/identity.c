#include "identity.h"

#include <stdlib.h>
#include <string.h>

#include "loop.h"

/* --- keys --------------------------------------------------------------------------
 */

/* What of a request makes its identity. */
typedef struct traits {
    hf_slice proxy;
    hf_slice session;
    hf_slice impersonate;
    hf_slice http_version;
} traits;

static hf_slice text_slice(const char *s) {
    return (hf_slice){(const uint8_t *)s, (uint32_t)strlen(s)};
}

static hf_slice or_default(hf_slice given, const char *fallback) {
    return given.p != NULL ? given : text_slice(fallback);
}

static traits traits_of(const hf_settings *s, const hf_request *r) {
    traits t = {.proxy = or_default(r->proxy, s->c.proxy),
                .session = r->session.p != NULL ? r->session : text_slice(""),
                .impersonate = or_default(r->impersonate, s->c.impersonate),
                .http_version = or_default(r->http_version, s->c.http_version)};
    if (r->next_proxy != NULL) {
        t.proxy = text_slice(r->next_proxy);
    }
    return t;
}

static bool is_plain(const hf_request *r) {
    return r->proxy.p == NULL && r->session.p == NULL && r->impersonate.p == NULL &&
           r->http_version.p == NULL && r->next_proxy == NULL;
}

/* Lengths in front, so that no two different sets of traits make the same key. */
static uint8_t *make_key(const traits *t, size_t *n) {
    const hf_slice *parts[] = {&t->proxy, &t->session, &t->impersonate,
                               &t->http_version};
    size_t total = 0;
    for (int i = 0; i < 4; i++) {
        total += sizeof(uint32_t) + parts[i]->n;
    }
    uint8_t *key = malloc(total);
    size_t at = 0;
    for (int i = 0; key != NULL && i < 4; i++) {
        memcpy(key + at, &parts[i]->n, sizeof(uint32_t));
        memcpy(key + at + sizeof(uint32_t), parts[i]->p, parts[i]->n);
        at += sizeof(uint32_t) + parts[i]->n;
    }
    *n = total;
    return key;
}

/* --- use order ---------------------------------------------------------------------
 */

static void unlink_identity(hf_loop *l, hf_identity *id) {
    if (id->prev != NULL) {
        id->prev->next = id->next;
    } else {
        l->identities = id->next;
    }
    if (id->next != NULL) {
        id->next->prev = id->prev;
    } else {
        l->oldest = id->prev;
    }
    id->next = id->prev = NULL;
    l->n_identities--;
}

static void link_first(hf_loop *l, hf_identity *id) {
    id->prev = NULL;
    id->next = l->identities;
    if (id->next != NULL) {
        id->next->prev = id;
    } else {
        l->oldest = id;
    }
    l->identities = id;
    l->n_identities++;
}

/* --- making and ending -------------------------------------------------------------
 */

static void free_transfers(hf_loop *l, hf_identity *id) {
    while (id->all != NULL) {
        hf_transfer *t = id->all;
        if (t->in_multi) {
            l->curl->curl_multi_remove_handle(t->lane->multi, t->easy);
        }
        hf_transfer_free(t);
    }
}

static void free_identity(hf_loop *l, hf_identity *id) {
    const hf_curl *c = l->curl;
    free_transfers(l, id);
    hf_sessions_end(id);
    for (int32_t i = 0; i < id->n_lanes; i++) {
        hf_lane_free(id->lanes[i]);
    }
    free(id->lanes);
    if (id->share != NULL) {
        c->curl_share_cleanup(id->share);
    }
    c->curl_slist_free_all(id->headers);
    c->curl_slist_free_all(id->resolve);
    hf_proxy_free(&id->proxy);
    free(id->impersonate);
    free(id->key);
    free(id);
}

void hf_identity_free_all(hf_loop *l) {
    while (l->identities != NULL) {
        hf_identity *id = l->identities;
        unlink_identity(l, id);
        free_identity(l, id);
    }
    l->plain = NULL;
}

bool hf_identity_shed(hf_loop *l) {
    const hf_curl *c = l->curl;
    hf_heart_enter(&l->heart, "curl_multi_setopt", l->now);
    for (hf_identity *id = l->identities; id != NULL; id = id->next) {
        if (c->version >= 0x081000) {
            for (int32_t i = 0; i < id->n_lanes; i++) {
                c->curl_multi_setopt(id->lanes[i]->multi, CURLMOPT_NETWORK_CHANGED,
                                     (long)CURLMNWC_CLEAR_CONNS);
            }
        }
    }
    l->lost = !hf_heart_leave(&l->heart);
    return !l->lost;
}

/* Each identity holds descriptors, so those not used for long give way. */
static bool evict(hf_loop *l) {
    hf_identity *id = l->oldest;
    while (id != NULL && l->n_identities >= HF_IDENTITIES) {
        hf_identity *prev = id->prev;
        if (id->busy == 0 && id != l->plain && !id->lanes[0]->touched) {
            unlink_identity(l, id);
            hf_heart_enter(&l->heart, "curl_multi_cleanup", l->now);
            free_identity(l, id);
            l->lost = !hf_heart_leave(&l->heart);
            if (l->lost) {
                return false;
            }
        }
        id = prev;
    }
    return true;
}

static long version_of(hf_slice v) {
    if (v.n == 1 && v.p[0] == '2') {
        return CURL_HTTP_VERSION_2TLS;
    }
    if (v.n == 1 && v.p[0] == '3') {
        return CURL_HTTP_VERSION_3;
    }
    if (v.n == 3) {
        return v.p[2] == '0' ? CURL_HTTP_VERSION_1_0 : CURL_HTTP_VERSION_1_1;
    }
    return CURL_HTTP_VERSION_NONE;
}

static int append(const hf_curl *c, struct curl_slist **list, const char *text) {
    struct curl_slist *grown = c->curl_slist_append(*list, text);
    if (grown == NULL) {
        return HF_ENOMEM;
    }
    *list = grown;
    return 0;
}

static int append_all(const hf_curl *c, struct curl_slist **list,
                      const char *const *texts) {
    int rc = 0;
    for (; rc == 0 && texts != NULL && *texts != NULL; texts++) {
        rc = append(c, list, *texts);
    }
    return rc;
}

/* Its lanes would each have a cache of their own. One thread uses them all, so no locks
 * are needed. */
static int make_share(hf_loop *l, hf_identity *id) {
    const hf_curl *c = l->curl;
    id->share = c->curl_share_init();
    if (id->share == NULL) {
        return HF_ENOMEM;
    }
    c->curl_share_setopt(id->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    c->curl_share_setopt(id->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    if (id->cookies) {
        c->curl_share_setopt(id->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
    }
    return 0;
}

static int fill(hf_loop *l, hf_identity *id, const traits *t, hf_errbuf err) {
    const hf_config *c = &l->settings->c;
    id->loop = l;
    id->http_version = version_of(t->http_version);
    id->impersonate = strndup((const char *)t->impersonate.p, t->impersonate.n);
    if (id->impersonate == NULL) {
        return HF_ENOMEM;
    }
    if (t->proxy.n > 0) {
        int rc = hf_proxy_parse(l->curl, t->proxy.p, t->proxy.n, &id->proxy, err);
        if (rc != 0) {
            return rc;
        }
    }
    int rc = append_all(l->curl, &id->headers, c->headers_list);
    if (rc == 0) {
        rc = append_all(l->curl, &id->resolve, c->resolve);
    }
    id->cookies = t->session.n > 0;
    if (rc == 0) {
        rc = make_share(l, id);
    }
    if (rc == 0) {
        rc = hf_sessions_init(id);
    }
    return rc == 0 ? hf_lane_new(id) : rc;
}

static int make(hf_loop *l, const traits *t, uint8_t *key, size_t n, hf_identity **out,
                hf_errbuf err) {
    hf_identity *id = calloc(1, sizeof *id);
    if (id == NULL) {
        free(key);
        return HF_ENOMEM;
    }
    id->key = key;
    id->key_len = n;
    id->hash = hf_host_hash((const char *)key, n);
    if (!evict(l)) {
        free(key);
        free(id);
        return HF_ECLOSED;
    }
    int rc = fill(l, id, t, err);
    if (rc != 0) {
        free_identity(l, id);
        return rc;
    }
    link_first(l, id);
    *out = id;
    return 0;
}

static hf_identity *find(hf_loop *l, const uint8_t *key, size_t n) {
    uint32_t hash = hf_host_hash((const char *)key, n);
    for (hf_identity *id = l->identities; id != NULL; id = id->next) {
        if (id->hash == hash && id->key_len == n && memcmp(id->key, key, n) == 0) {
            return id;
        }
    }
    return NULL;
}

int hf_identity_get(hf_loop *l, const hf_request *r, hf_identity **out, hf_errbuf err) {
    bool plain = is_plain(r);
    if (plain && l->plain != NULL) {
        *out = l->plain;
        return 0;
    }
    traits t = traits_of(l->settings, r);
    size_t n;
    uint8_t *key = make_key(&t, &n);
    if (key == NULL) {
        return HF_ENOMEM;
    }
    *out = find(l, key, n);
    if (*out != NULL) {
        free(key);
        unlink_identity(l, *out);
        link_first(l, *out);
        return 0;
    }
    int rc = make(l, &t, key, n, out, err);
    if (rc == 0 && plain) {
        l->plain = *out;
    }
    return rc;
}

/* --- what all requests of an identity share ----------------------------------------
 */

static int dress_profile(const hf_identity *id, CURL *easy, hf_errbuf err) {
    const hf_curl *c = id->loop->curl;
    if (id->impersonate[0] == '\0') {
        return 0;
    }
    if (!c->impersonates) {
        return hf_fail(err, HF_EINVAL,
                       "impersonate needs curl_cffi's libcurl; the one "
                       "in use cannot do it");
    }
    if (c->curl_easy_impersonate(easy, id->impersonate, 1) != 0) {
        return hf_fail(err, HF_EINVAL, "impersonate \"%.60s\" is not known to libcurl",
                       id->impersonate);
    }
    return 0;
}

static void dress_proxy(const hf_identity *id, CURL *easy) {
    const hf_curl *c = id->loop->curl;
    const hf_proxy *p = &id->proxy;
    /* Set in each case, or libcurl would ask the environment. */
    c->curl_easy_setopt(easy, CURLOPT_PROXY, p->url != NULL ? p->url : "");
    c->curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    c->curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    /* The proxy would choose GSSAPI, which libcurl does with blocking calls. */
    c->curl_easy_setopt(easy, CURLOPT_SOCKS5_AUTH, (long)CURLAUTH_BASIC);
    c->curl_easy_setopt(easy, CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC);
    c->curl_easy_setopt(easy, CURLOPT_PROXY_CREDENTIAL_NO_REUSE, 1L);
    if (p->url != NULL && p->user != NULL) {
        c->curl_easy_setopt(easy, CURLOPT_PROXYUSERNAME, p->user);
        c->curl_easy_setopt(easy, CURLOPT_PROXYPASSWORD,
                            p->password != NULL ? p->password : "");
    }
}

static const char *ech_text(int ech) {
    switch (ech) {
    case HF_ECH_DNS:
        return "true";
    case HF_ECH_OFF:
        return "false";
    default:
        return "grease";
    }
}

static void dress_tls(const hf_identity *id, CURL *easy) {
    const hf_curl *c = id->loop->curl;
    const hf_config *cfg = &id->loop->settings->c;
    long verify = cfg->verify != 0;
    c->curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify);
    c->curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, verify * 2);
    c->curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYPEER, verify);
    c->curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, verify * 2);
    if (cfg->cainfo[0] != '\0') {
        c->curl_easy_setopt(easy, CURLOPT_CAINFO, cfg->cainfo);
        c->curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, cfg->cainfo);
    }
    /* With a CApath libcurl parses the bundle anew for each connection. */
    c->curl_easy_setopt(easy, CURLOPT_CAPATH, (char *)NULL);
    c->curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, (char *)NULL);
    c->curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, -1L);
    /* A profile may ask for ECH by DNS, which waits 2 s for servers that ignore such
     * queries; grease looks the same from outside. Unknown to other libraries. */
    if (id->impersonate[0] != '\0' || cfg->ech == HF_ECH_DNS) {
        c->curl_easy_setopt(easy, CURLOPT_ECH, ech_text(cfg->ech));
    }
}

static void dress_network(const hf_identity *id, CURL *easy) {
    const hf_curl *c = id->loop->curl;
    const hf_config *cfg = &id->loop->settings->c;
    long family = cfg->ip_version == 4   ? CURL_IPRESOLVE_V4
                  : cfg->ip_version == 6 ? CURL_IPRESOLVE_V6
                                         : CURL_IPRESOLVE_WHATEVER;
    c->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    c->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    c->curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    c->curl_easy_setopt(easy, CURLOPT_IPRESOLVE, family);
    c->curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 65536L);
    c->curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    c->curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    c->curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, -1L); /* see lane.h */
    c->curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 0L);
    c->curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    /* Each handle would put them all into the share again. */
    if (id->resolve != NULL && !id->named) {
        c->curl_easy_setopt(easy, CURLOPT_RESOLVE, id->resolve);
    }
    if (cfg->dns_servers[0] != '\0') {
        c->curl_easy_setopt(easy, CURLOPT_DNS_SERVERS, cfg->dns_servers);
    }
    if (id->http_version != CURL_HTTP_VERSION_NONE) {
        c->curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, id->http_version);
    }
    c->curl_easy_setopt(easy, CURLOPT_SHARE, id->share);
    if (id->cookies) {
        c->curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "");
    }
}

/* What we decode is what we ask for; "" asks for what libcurl decodes. */
static const char *accepted(const hf_curl *c) {
    if (!c->decodes) {
        return "";
    }
    if (c->zstd) {
        return c->brotli ? "gzip, deflate, br, zstd" : "gzip, deflate, zstd";
    }
    return c->brotli ? "gzip, deflate, br" : "gzip, deflate";
}

static void dress_http(const hf_identity *id, CURL *easy) {
    const hf_curl *c = id->loop->curl;
    const hf_config *cfg = &id->loop->settings->c;
    /* Our own decoders tell a cut body from a whole one; libcurl does not. */
    c->curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, c->decodes ? 0L : 1L);
    if (id->impersonate[0] == '\0') {
        c->curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, accepted(c));
        if (cfg->user_agent[0] != '\0') {
            c->curl_easy_setopt(easy, CURLOPT_USERAGENT, cfg->user_agent);
        }
    }
    if (id->headers != NULL) {
        c->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, id->headers);
    }
}

int hf_identity_dress(const hf_identity *id, hf_transfer *t, hf_errbuf err) {
    int rc = dress_profile(id, t->easy, err);
    if (rc != 0) {
        return rc;
    }
    dress_network(id, t->easy);
    dress_proxy(id, t->easy);
    dress_tls(id, t->easy);
    dress_http(id, t->easy);
    hf_transfer_set_callbacks(t);
    return 0;
}
