#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "tlscache.h"

/* Strings of the configuration are copied into one block, counted first. */
typedef struct arena {
    char *p; /* NULL while counting */
    size_t used;
} arena;

static size_t align8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

static void *carve(arena *a, const void *from, size_t n) {
    void *place = a->p != NULL ? a->p + a->used : NULL;
    if (place != NULL && n > 0) {
        memcpy(place, from, n);
    }
    a->used += align8(n);
    return place;
}

static const char *keep_text(arena *a, const char *s) {
    s = s != NULL ? s : "";
    return carve(a, s, strlen(s) + 1);
}

static const char *const *keep_list(arena *a, const char *const *list) {
    size_t n = 0;
    if (list == NULL) {
        return NULL;
    }
    while (list[n] != NULL) {
        n++;
    }
    const char **copy = carve(a, list, (n + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const char *text = keep_text(a, list[i]);
        if (copy != NULL) {
            copy[i] = text;
        }
    }
    return copy;
}

static const hf_host_limits *keep_limits(arena *a, const hf_host_limits *rows,
                                         int32_t n) {
    if (n <= 0) {
        return NULL;
    }
    hf_host_limits *copy = carve(a, rows, (size_t)n * sizeof *rows);
    for (int32_t i = 0; i < n; i++) {
        const char *pattern = keep_text(a, rows[i].pattern);
        if (copy != NULL) {
            copy[i].pattern = pattern;
        }
    }
    return copy;
}

static void keep_all(arena *a, const hf_config *from, hf_config *to) {
    to->libcurl = keep_text(a, from->libcurl);
    to->cainfo = keep_text(a, from->cainfo);
    to->user_agent = keep_text(a, from->user_agent);
    to->proxy = keep_text(a, from->proxy);
    to->impersonate = keep_text(a, from->impersonate);
    to->http_version = keep_text(a, from->http_version);
    to->method = keep_text(a, from->method);
    to->dns_servers = keep_text(a, from->dns_servers);
    size_t body = from->body_len > 0 ? (size_t)from->body_len : 0;
    to->body = carve(a, from->body, body);
    to->headers_list = keep_list(a, from->headers_list);
    to->resolve = keep_list(a, from->resolve);
    to->allow_nets = keep_list(a, from->allow_nets);
    to->sensitive = keep_list(a, from->sensitive);
    to->host_limits = keep_limits(a, from->host_limits, from->n_host_limits);
    to->body_patterns = keep_list(a, from->body_patterns);
    to->fields = NULL;
}

typedef struct bound {
    const char *name;
    int64_t value;
    int64_t least;
    int64_t most;
} bound;

#define YEAR_US 31536000000000
#define BIG ((int64_t)1 << 40)

static int check(const hf_config *c, hf_errbuf err) {
    const bound bounds[] = {
        {"loops", c->loops, 1, 256},
        {"max_concurrency", c->max_concurrency, 1, 1000000},
        {"max_per_host", c->max_per_host, 0, 1000000},
        {"ring_bytes", c->ring_bytes, 65536, BIG},
        {"window_requests", c->window_requests, 1, BIG},
        {"window_bytes", c->window_bytes, 1, BIG},
        {"connect_timeout", c->connect_timeout, 0, YEAR_US},
        {"first_byte_timeout", c->first_byte_timeout, 0, YEAR_US},
        {"idle_timeout", c->idle_timeout, 0, YEAR_US},
        {"timeout", c->timeout, 1, YEAR_US},
        {"hard_timeout", c->hard_timeout, c->timeout, YEAR_US},
        {"deadline", c->deadline, 0, YEAR_US},
        {"max_body", c->max_body, 0, BIG},
        {"max_wire", c->max_wire, 0, BIG},
        {"max_ratio", c->max_ratio, 0, BIG},
        {"max_headers", c->max_headers, 1024, 1 << 24},
        {"max_redirects", c->max_redirects, -1, 1000},
        {"body_mode", c->body_mode, HF_BODY_AUTO, HF_BODY_NONE},
        {"output", c->output, HF_OUTPUT_LINES, HF_OUTPUT_FRAMES},
        {"ech", c->ech, HF_ECH_GREASE, HF_ECH_OFF},
        {"body_len", c->body_len, -1, INT32_MAX},
        {"n_host_limits", c->n_host_limits, 0, 1 << 20},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const bound *b = &bounds[i];
        if (b->value < b->least || b->value > b->most) {
            return hf_fail(err, HF_EINVAL, "%s is %lld: it must be from %lld to %lld",
                           b->name, (long long)b->value, (long long)b->least,
                           (long long)b->most);
        }
    }
    if ((c->ring_bytes & (c->ring_bytes - 1)) != 0) {
        return hf_fail(err, HF_EINVAL, "ring_bytes is %lld: it must be a power of two",
                       (long long)c->ring_bytes);
    }
    if (c->ip_version != 0 && c->ip_version != 4 && c->ip_version != 6) {
        return hf_fail(err, HF_EINVAL, "ip_version is %d: it must be 0, 4 or 6",
                       c->ip_version);
    }
    return 0;
}

void hf_config_default(hf_config *c) {
    memset(c, 0, sizeof *c);
    c->loops = 1;
    c->max_concurrency = 256;
    c->max_per_host = 8;
    c->ring_bytes = 4 << 20;
    c->window_requests = 10000;
    c->window_bytes = 64 << 20;
    c->connect_timeout = 5000000;
    c->timeout = 10000000;
    c->hard_timeout = 15000000;
    c->max_body = 16 << 20;
    c->max_wire = BIG;
    c->max_ratio = 0;
    c->max_headers = 300 << 10;
    c->max_redirects = 10;
    c->headers = 1;
    c->verify = 1;
    c->body_len = -1;
    c->libcurl = c->cainfo = c->user_agent = c->proxy = c->impersonate = "";
    c->http_version = c->method = c->dns_servers = "";
}

int hf_settings_init(hf_settings *s, const hf_config *cfg, hf_errbuf err) {
    memset(s, 0, sizeof *s);
    int rc = check(cfg, err);
    if (rc == 0) {
        rc = hf_record_fields(cfg->fields, &s->fields, err);
    }
    if (rc != 0) {
        return rc;
    }
    arena count = {NULL, 0};
    hf_config scratch;
    keep_all(&count, cfg, &scratch);
    s->arena = malloc(count.used);
    if (s->arena == NULL) {
        return hf_fail(err, HF_ENOMEM, "no memory for the configuration");
    }
    s->c = *cfg;
    hf_tls_cache_hold(s->c.tls_cache);
    arena fill = {s->arena, 0};
    keep_all(&fill, cfg, &s->c);
    if (cfg->output == HF_OUTPUT_FRAMES) {
        uint64_t all = ((uint64_t)1 << HF_F_COUNT) - 1;
        s->hidden = (all & ~s->fields) | (uint64_t)!cfg->headers << HF_F_COUNT;
        s->fields = all;
        s->c.headers = 1;
    }
    s->limits = (hf_limits){.connect = cfg->connect_timeout,
                            .first_byte = cfg->first_byte_timeout,
                            .idle = cfg->idle_timeout,
                            .soft = cfg->timeout,
                            .hard = cfg->hard_timeout,
                            .job = cfg->deadline};
    rc = hf_nets_parse(s->c.allow_nets, &s->nets, err);
    if (rc == 0) {
        rc = hf_curl_load(&s->curl, s->c.libcurl, err);
    }
    if (rc != 0) {
        hf_settings_free(s);
    }
    return rc;
}

void hf_settings_free(hf_settings *s) {
    hf_nets_free(&s->nets);
    hf_tls_cache_free(s->c.tls_cache);
    s->c.tls_cache = NULL;
    free(s->arena);
    s->arena = NULL;
}
