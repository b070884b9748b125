/* How fast a body becomes part of a record, on one core.
 *
 *     bench_encode [FILE]
 *
 * prints GB/s of input for each stage over FILE, or over a page made here: 30 KiB of
 * markup with a quote or a line end about every 30 bytes, as real pages have them.
 * Each figure is the best of several rounds, since whatever else runs only adds time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base64.h"
#include "charset.h"
#include "ndjson.h"
#include "text.h"
#include "utf8.h"

enum { PAGE = 30 * 1024, ROUNDS = 15, ROUND_BYTES = 64 << 20, LARGEST = 16 << 20 };

typedef struct job {
    const uint8_t *in;
    size_t n;
    uint8_t *out;
    const hf_charset *cs;
    hf_text_ctx *text;
    const char *type; /* Content-Type */
} job;

typedef size_t (*stage)(const job *j);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void measure(const char *name, stage run, const job *j) {
    size_t times = ROUND_BYTES / (j->n + 1) + 1;
    double best = 1e9;
    volatile size_t sink = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (size_t i = 0; i < times; i++)
            sink += run(j);
        double took = now() - start;
        best = took < best ? took : best;
    }
    printf("%-34s %6.2f GB/s\n", name, (double)times * (double)j->n / best * 1e-9);
}

static size_t copy(const job *j) {
    memcpy(j->out, j->in, j->n);
    return j->out[j->n / 2];
}

static size_t check(const job *j) {
    return (size_t)hf_utf8_valid(j->in, j->n);
}

static size_t check_scalar(const job *j) {
    return (size_t)hf_utf8_valid_scalar(j->in, j->n);
}

static size_t escape(const job *j) {
    return hf_json_escape(j->out, j->in, j->n);
}

static size_t escape_scalar(const job *j) {
    return hf_json_escape_scalar(j->out, j->in, j->n);
}

static size_t check_then_escape(const job *j) {
    return hf_utf8_valid(j->in, j->n) ? hf_json_escape(j->out, j->in, j->n) : 0;
}

static size_t check_and_escape(const job *j) {
    return (size_t)hf_json_escape_utf8(j->out, j->in, j->n);
}

static size_t encode(const job *j) {
    return hf_base64_encode(j->out, j->in, j->n);
}

static size_t encode_scalar(const job *j) {
    return hf_base64_encode_scalar(j->out, j->in, j->n);
}

static size_t decode(const job *j) {
    return (size_t)hf_charset_decode(j->cs, j->out, j->in, j->n);
}

#if defined(__x86_64__)
static size_t check_sse2(const job *j) {
    return (size_t)hf_utf8_valid_sse2(j->in, j->n);
}

static size_t escape_sse2(const job *j) {
    return hf_json_escape_sse2(j->out, j->in, j->n);
}
#endif

/* Lines of markup; text is put between the tags. */
static size_t make_page(uint8_t *page, size_t cap, const char *text) {
    size_t n = 0;
    for (unsigned i = 0; n + 1024 < cap; i++) {
        int len = snprintf((char *)page + n, cap - n,
                           "%*s<div class=\"item item-%u\"><a href=\"/catalogue/%u/\" "
                           "title=\"Article %u\">%s</a>\n%*s<p class=\"price\">%u.99"
                           "</p></div>\n",
                           (int)(i % 5) * 2, "", i, i * 37, i, text, (int)(i % 7) * 2,
                           "", i % 100);
        n += len > 0 ? (size_t)len : 0;
    }
    return n;
}

static size_t read_file(const char *path, uint8_t **data) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return 0;
    *data = malloc(LARGEST);
    size_t got = *data == NULL ? 0 : fread(*data, 1, LARGEST, f);
    fclose(f);
    return got;
}

static size_t decide(const job *j) {
    hf_text t;
    hf_text_decide(j->text, j->in, j->n, (const uint8_t *)j->type, strlen(j->type), 0,
                   &t);
    return t.utf8_len;
}

/* All that a body goes through on its way into the record. */
static size_t decide_and_write(const job *j) {
    hf_text t;
    hf_text_decide(j->text, j->in, j->n, (const uint8_t *)j->type, strlen(j->type), 0,
                   &t);
    return hf_json_string(j->out, t.utf8, t.utf8_len);
}

static void stages(job *j) {
    measure("memcpy", copy, j);
    measure("utf8", check, j);
    measure("utf8, scalar", check_scalar, j);
    measure("escape", escape, j);
    measure("escape, scalar", escape_scalar, j);
#if defined(__x86_64__)
    measure("utf8, SSE2", check_sse2, j);
    measure("escape, SSE2", escape_sse2, j);
#endif
    measure("utf8, then escape", check_then_escape, j);
    measure("utf8 and escape by pieces", check_and_escape, j);
    j->type = "text/html; charset=utf-8";
    measure("decide, utf-8 by header", decide, j);
    measure("decide and write, utf-8 by header", decide_and_write, j);
    j->type = "text/html";
    measure("decide and write, nothing claimed", decide_and_write, j);
    measure("base64", encode, j);
    measure("base64, scalar", encode_scalar, j);
}

static void header_values(job *j) {
    static const char value[] = "text/html; charset=utf-8";
    j->in = (const uint8_t *)value;
    j->n = sizeof value - 1;
    measure("24-byte value: utf8 and escape", check_and_escape, j);
}

int main(int argc, char **argv) {
    static const char *const texts[][2] = {
        {"English", "The quick brown fox jumps over the lazy dog and runs away"},
        {"Russian", "Съешь же ещё этих мягких французских булок да выпей чаю"},
        {"Japanese", "いろはにほへとちりぬるを、わかよたれそつねならむ。"},
    };
    size_t n = PAGE;
    uint8_t *page = NULL;
    if (argc > 1)
        n = read_file(argv[1], &page);
    else
        page = malloc(PAGE);
    uint8_t *out = n > 0 && n <= LARGEST ? malloc(hf_json_room(n)) : NULL;
    if (page == NULL || out == NULL) {
        fprintf(stderr, "bench_encode: nothing to read\n");
        return 1;
    }
    job j = {page, n, out, NULL, hf_text_new(), ""};
    if (j.text == NULL)
        return 1;
    for (size_t t = 0; t < (argc > 1 ? 1 : 3); t++) {
        if (argc == 1)
            j.n = make_page(page, PAGE, texts[t][1]);
        printf("-- %zu bytes, %s\n", j.n, argc > 1 ? argv[1] : texts[t][0]);
        stages(&j);
    }
    if (argc == 1) {
        /* Four bytes are a valid pair of characters in both: speed, not sense. */
        for (size_t i = 0; i < n; i++)
            page[i] = i % 64 < 32 ? 'a' : (uint8_t)(0xb0 + i % 32);
        j.n = n;
        j.cs = hf_charset_find((const uint8_t *)"windows-1251", 12);
        j.type = "text/html; charset=windows-1251";
        measure("decode windows-1251", decode, &j);
        measure("decide and write, windows-1251", decide_and_write, &j);
        j.cs = hf_charset_find((const uint8_t *)"gbk", 3);
        measure("decode gbk", decode, &j);
        header_values(&j);
    }
    hf_text_free(j.text);
    free(out);
    free(page);
    return 0;
}
