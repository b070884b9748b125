#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "sniff.h"
#include "utf8.h"

/* Scratch memory that is worth keeping between calls. */
enum { KEEP = 1 << 20 };

/* A site says the same Content-Type again and again: what the last one meant is kept.
 */
enum { TYPE_MOST = 128 };

struct hf_text_ctx {
    hf_buf scratch; /* the text of the last call, unless it stands in the body */
    hf_content_type type;
    size_t type_len; /* 0: none is kept */
    uint8_t type_text[TYPE_MOST];
};

hf_text_ctx *hf_text_new(void) {
    hf_text_ctx *ctx = malloc(sizeof *ctx);
    if (ctx != NULL) {
        ctx->scratch = hf_buf_make(SIZE_MAX);
        ctx->type_len = 0;
    }
    return ctx;
}

void hf_text_free(hf_text_ctx *ctx) {
    if (ctx == NULL)
        return;
    hf_buf_free(&ctx->scratch);
    free(ctx);
}

const char *hf_text_source_name(int source) {
    switch (source) {
    case HF_CHARSET_BOM:
        return "bom";
    case HF_CHARSET_HEADER:
        return "header";
    case HF_CHARSET_META:
        return "meta";
    case HF_CHARSET_VALID:
        return "valid";
    case HF_CHARSET_DEFAULT:
        return "default";
    default:
        return NULL;
    }
}

static int as_base64(hf_text *out, int source, const char *charset) {
    *out = (hf_text){HF_TEXT_BASE64, source, charset, NULL, 0};
    return 0;
}

static int as_text(hf_text *out, int source, const char *charset, const uint8_t *s,
                   size_t n) {
    *out = (hf_text){HF_TEXT_UTF8, source, charset, s, n};
    return 0;
}

/* Decodes s, which source claims to be in cs. Returns 1, 0 when it is not, HF_ENOMEM;
 * out is set with 1 only. */
static int decode(hf_text_ctx *ctx, const hf_charset *cs, int source, const uint8_t *s,
                  size_t n, hf_text *out) {
    const char *name = hf_charset_name(cs);
    int as_it_is = hf_charset_is_utf8(cs) ? hf_utf8_valid(s, n)
                                          : hf_charset_keeps_ascii(cs, s, n) &&
                                                hf_utf8_ascii_prefix(s, n) == n;
    if (as_it_is || hf_charset_is_utf8(cs)) {
        if (as_it_is)
            as_text(out, source, name, s, n);
        return as_it_is;
    }
    int rc = hf_buf_reserve(&ctx->scratch, hf_charset_room(n));
    if (rc != 0)
        return HF_ENOMEM;
    int64_t len = hf_charset_decode(cs, ctx->scratch.data, s, n);
    if (len < 0)
        return 0;
    as_text(out, source, name, ctx->scratch.data, (size_t)len);
    return 1;
}

/* A byte order mark is proof: what does not follow it is broken, not something else. */
static int by_bom(hf_text_ctx *ctx, const uint8_t *body, size_t n, int *found,
                  hf_text *out) {
    size_t len;
    const char *utf32 = hf_sniff_utf32(body, n);
    const hf_charset *cs = hf_sniff_bom(body, n, &len);
    *found = utf32 != NULL || cs != NULL;
    if (utf32 != NULL)
        return as_base64(out, HF_CHARSET_BOM, utf32);
    if (cs == NULL)
        return 0;
    int rc = decode(ctx, cs, HF_CHARSET_BOM, body + len, n - len, out);
    if (rc != 1)
        as_base64(out, HF_CHARSET_BOM, hf_charset_name(cs));
    return rc < 0 ? rc : 0;
}

/* Whether a body is UTF-8 but for a character cut off at its end. Some whole one must
 * have told so before: "caf" and a lone e9 is another charset. */
static int is_cut_utf8(const uint8_t *s, size_t n) {
    size_t whole = hf_utf8_valid_prefix(s, n);
    size_t left = n - whole;
    if (left == 0 || left > 3 || hf_utf8_ascii_prefix(s, whole) == whole)
        return 0;
    uint8_t lead = s[whole];
    for (size_t i = whole + 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return lead >= 0xc2 && lead <= 0xf4 && left < need;
}

/* Nothing is claimed: UTF-8 by validity, else windows-1252, which never fails. */
static int by_bytes(hf_text_ctx *ctx, const uint8_t *body, size_t n, hf_text *out) {
    static const char fallback[] = "windows-1252";
    if (hf_utf8_valid(body, n))
        return as_text(out, HF_CHARSET_VALID, "utf-8", body, n);
    if (is_cut_utf8(body, n))
        return as_base64(out, HF_CHARSET_VALID, "utf-8");
    const hf_charset *cs =
        hf_charset_find((const uint8_t *)fallback, sizeof fallback - 1);
    int rc = decode(ctx, cs, HF_CHARSET_DEFAULT, body, n, out);
    if (rc < 0)
        as_base64(out, HF_CHARSET_DEFAULT, hf_charset_name(cs));
    return rc < 0 ? rc : 0;
}

static hf_content_type content_type_of(hf_text_ctx *ctx, const uint8_t *s, size_t n) {
    if (n > 0 && n == ctx->type_len && memcmp(s, ctx->type_text, n) == 0)
        return ctx->type;
    ctx->type = hf_sniff_content_type(s, n);
    ctx->type_len = n <= TYPE_MOST ? n : 0;
    if (ctx->type_len > 0)
        memcpy(ctx->type_text, s, n);
    return ctx->type;
}

/* Who claims what of a body without a byte order mark; NULL where nobody does. */
static const hf_charset *claimed(const hf_content_type *type, const uint8_t *body,
                                 size_t n, int *source) {
    *source = HF_CHARSET_HEADER;
    if (type->charset != NULL || !type->markup)
        return type->charset;
    *source = HF_CHARSET_META;
    return hf_sniff_markup(body, n);
}

/* Whether UTF-8 is an answer where the claim turns out to be wrong. */
static int may_be_utf8(const hf_charset *claim, const uint8_t *body, size_t n) {
    return !hf_charset_is_utf8(claim) && hf_utf8_valid(body, n) &&
           !hf_charset_hides_text(claim, body, n);
}

int hf_text_decide(hf_text_ctx *ctx, const uint8_t *body, size_t n,
                   const uint8_t *content_type, size_t ct_len, int force_text,
                   hf_text *out) {
    *out = (hf_text){HF_TEXT_NONE, HF_CHARSET_NULL, NULL, NULL, 0};
    hf_buf_reset(&ctx->scratch, KEEP);
    if (n == 0)
        return 0;
    hf_content_type type = content_type_of(ctx, content_type, ct_len);
    if (type.binary && !force_text)
        return as_base64(out, HF_CHARSET_NULL, NULL);
    int found;
    int rc = by_bom(ctx, body, n, &found, out);
    if (found)
        return rc;
    int source;
    const hf_charset *claim = claimed(&type, body, n, &source);
    if (claim == NULL) {
        if (!force_text && memchr(body, 0, n) != NULL)
            return as_base64(out, HF_CHARSET_NULL, NULL);
        return by_bytes(ctx, body, n, out);
    }
    rc = decode(ctx, claim, source, body, n, out);
    if (rc == 1)
        return 0;
    if (rc == 0 && may_be_utf8(claim, body, n))
        return as_text(out, HF_CHARSET_VALID, "utf-8", body, n);
    as_base64(out, source, hf_charset_name(claim));
    return rc;
}

static int as_name(hf_text *out, int source, const char *charset) {
    *out = (hf_text){HF_TEXT_NONE, source, charset, NULL, 0};
    return 0;
}

/* The claim stands whatever the body is, unless the body is valid UTF-8 and is not what
 * it claims to be. */
static int name_claim(hf_text_ctx *ctx, const hf_charset *cs, int source,
                      const uint8_t *body, size_t n, hf_text *out) {
    const char *name = hf_charset_name(cs);
    if (!may_be_utf8(cs, body, n))
        return as_name(out, source, name);
    int rc = decode(ctx, cs, source, body, n, out);
    if (rc == 0)
        return as_name(out, HF_CHARSET_VALID, "utf-8");
    as_name(out, source, name);
    return rc < 0 ? rc : 0;
}

int hf_text_name(hf_text_ctx *ctx, const uint8_t *body, size_t n,
                 const uint8_t *content_type, size_t ct_len, int force_text,
                 hf_text *out) {
    as_name(out, HF_CHARSET_NULL, NULL);
    hf_buf_reset(&ctx->scratch, KEEP);
    hf_content_type type = content_type_of(ctx, content_type, ct_len);
    if (n == 0 || (type.binary && !force_text))
        return 0;
    size_t len;
    const char *utf32 = hf_sniff_utf32(body, n);
    const hf_charset *cs = hf_sniff_bom(body, n, &len);
    if (utf32 != NULL || cs != NULL)
        return as_name(out, HF_CHARSET_BOM,
                       utf32 != NULL ? utf32 : hf_charset_name(cs));
    int source;
    cs = claimed(&type, body, n, &source);
    if (cs != NULL)
        return name_claim(ctx, cs, source, body, n, out);
    if (!force_text && memchr(body, 0, n) != NULL)
        return 0;
    return hf_utf8_valid(body, n) || is_cut_utf8(body, n)
               ? as_name(out, HF_CHARSET_VALID, "utf-8")
               : as_name(out, HF_CHARSET_DEFAULT, "windows-1252");
}

uint32_t hf_text_key(const hf_text *told) {
    int number = told->charset != NULL ? hf_charset_number(told->charset) : -1;
    uint32_t bom = told->source == HF_CHARSET_BOM;
    return number < 0 ? 0 : ((uint32_t)number + 1) << 1 | bom;
}

/* Charset and source leave one question open, whether the body can be decoded: where it
 * can't, hf_text_name has told what base64 is told with. */
int hf_text_recall(hf_text_ctx *ctx, uint32_t key, const uint8_t *body, size_t n,
                   hf_text *out) {
    as_name(out, HF_CHARSET_NULL, NULL);
    hf_buf_reset(&ctx->scratch, KEEP);
    if (n == 0)
        return 0;
    const hf_charset *cs = hf_charset_of((key >> 1) - 1); /* none for key 0 */
    size_t mark = 0;
    if ((key & 1) != 0 && hf_sniff_bom(body, n, &mark) == NULL)
        cs = NULL;
    int rc = 0;
    if (cs != NULL)
        rc = decode(ctx, cs, HF_CHARSET_NULL, body + mark, n - mark, out);
    if (rc != 1)
        as_base64(out, HF_CHARSET_NULL, NULL);
    return rc < 0 ? rc : 0;
}
