/* Endings as facts, and what the record shall say of them. */
#include <errno.h>

#include "check.h"
#include "curlabi.h"
#include "outcome.h"

enum {
    S = 1,
    T = 2,
    P = 4,
    G = 8,
    B = 16,
    K = 32,
    X = 64,
    C = 128,
    H = 256,
    E = 512,
    W = 1024
};
/* Facts of a row: P through a proxy, S which is a SOCKS one, T in a tunnel, K by https,
 * G some byte of a response came, B its head is complete, X TLS garbage, C in chunks,
 * H by HTTP/2, W some of the body came, E the connection stood. */

typedef struct row {
    const char *what;
    int code, os_errno, phase, due, connectcode, px, facts;
    int type, origin, truncated;
} row;

static hf_outcome classify(const row *r) {
    hf_ending e = {.curl_code = r->code,
                   .os_errno = r->os_errno,
                   .phase = r->phase,
                   .due = r->due,
                   .connectcode = r->connectcode,
                   .proxy_error = r->px,
                   .proxied = (r->facts & P) != 0,
                   .socks = (r->facts & S) != 0,
                   .tunnel = (r->facts & T) != 0,
                   .untrusted = r->code == CURLE_PEER_FAILED_VERIFICATION,
                   .tls = (r->facts & K) != 0,
                   .tls_garbage = (r->facts & X) != 0,
                   .got_bytes = (r->facts & (G | B)) != 0,
                   .body_started = (r->facts & B) != 0,
                   .chunked = (r->facts & C) != 0,
                   .http2 = (r->facts & H) != 0,
                   .some_body = (r->facts & W) != 0,
                   .stood = (r->facts & E) != 0};
    hf_outcome o;
    hf_outcome_classify(&e, &o);
    return o;
}

static void check_rows(const row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hf_outcome o = classify(&rows[i]);
        int good = CHECK_EQ(o.type, rows[i].type);
        good &= CHECK_EQ(o.origin, rows[i].origin);
        good &= CHECK_EQ(o.truncated, rows[i].truncated);
        good &= CHECK_EQ(o.phase, rows[i].phase);
        good &= CHECK(o.message[0] != '\0');
        good &= CHECK_EQ(o.overrun, -1);
        if (!good) {
            fprintf(stderr, "    row: %s (got %s)\n", rows[i].what,
                    hf_type_name(o.type));
        }
    }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void names_and_connections_are_told_apart(void) {
    static const row rows[] = {
        {"no such host", CURLE_COULDNT_RESOLVE_HOST, 0, HF_P_DNS, 0, 0, 0, 0,
         HF_T_DNS_ERROR, HF_O_SITE, 0},
        {"no such proxy", CURLE_COULDNT_RESOLVE_PROXY, 0, HF_P_DNS, 0, 0, 0, P,
         HF_T_DNS_ERROR, HF_O_PROXY, 0},
        {"socks5h: the proxy can't resolve", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 27,
         P | S | T, HF_T_DNS_ERROR, HF_O_SITE, 0},
        {"refused", CURLE_COULDNT_CONNECT, ECONNREFUSED, HF_P_CONNECT, 0, 0, 0, 0,
         HF_T_CONNECT_REFUSED, HF_O_SITE, 0},
        {"refused by the proxy's port", CURLE_COULDNT_CONNECT, ECONNREFUSED,
         HF_P_CONNECT, 0, 0, 0, P | T, HF_T_CONNECT_REFUSED, HF_O_PROXY, 0},
        {"unreachable", CURLE_COULDNT_CONNECT, ENETUNREACH, HF_P_CONNECT, 0, 0, 0, 0,
         HF_T_CONNECT_ERROR, HF_O_SITE, 0},
        {"no local port", CURLE_COULDNT_CONNECT, EADDRNOTAVAIL, HF_P_CONNECT, 0, 0, 0,
         0, HF_T_LOCAL_PORT_EXHAUSTED, HF_O_LOCAL, 0},
        {"no descriptor", CURLE_COULDNT_CONNECT, EMFILE, HF_P_CONNECT, 0, 0, 0, P,
         HF_T_TOO_MANY_OPEN_FILES, HF_O_LOCAL, 0},
        {"no descriptor in the system", CURLE_COULDNT_CONNECT, ENFILE, HF_P_CONNECT, 0,
         0, 0, 0, HF_T_TOO_MANY_OPEN_FILES, HF_O_LOCAL, 0},
    };
    CHECK_ROWS(rows);
}

static void what_a_proxy_says_is_the_proxys_or_the_sites(void) {
    static const row rows[] = {
        {"CONNECT 403", CURLE_RECV_ERROR, 0, HF_P_PROXY, 0, 403, 0, P | T | K,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"CONNECT 502 as error 7", CURLE_COULDNT_CONNECT, 0, HF_P_PROXY, 0, 502, 0,
         P | T | K, HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"CONNECT 407", CURLE_RECV_ERROR, 0, HF_P_PROXY, 0, 407, 0, P | T | K,
         HF_T_PROXY_AUTH, HF_O_PROXY, 0},
        {"CONNECT 407 without an end", 0, 0, HF_P_PROXY, HF_DUE_CONNECT, 407, 0,
         P | T | K, HF_T_PROXY_AUTH, HF_O_PROXY, 0},
        {"the same at the deadline", 0, 0, HF_P_PROXY, HF_DUE_JOB, 407, 0, P | T | K,
         HF_T_DEADLINE, HF_O_LOCAL, 0},
        {"CONNECT 200 and no TLS", 0, 0, HF_P_TLS, HF_DUE_CONNECT, 200, 0, P | T | K,
         HF_T_TLS_TIMEOUT, HF_O_SITE, 0},
        {"not HTTP", CURLE_WEIRD_SERVER_REPLY, 0, HF_P_PROXY, 0, 0, 0, P | T | K,
         HF_T_PROXY_PROTOCOL, HF_O_PROXY, 0},
        {"socks reply 1", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 20, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"socks reply 2", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 23, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"socks reply 3", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 22, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_SITE, 0},
        {"socks reply 4", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 21, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_SITE, 0},
        {"socks reply 5", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 19, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_SITE, 0},
        {"socks reply 6", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 24, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_SITE, 0},
        {"socks reply 7", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 18, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"socks reply 8", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 17, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"socks user rejected", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 33, P | S | T,
         HF_T_PROXY_AUTH, HF_O_PROXY, 0},
        {"socks 4 reply 92", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 7, P | S | T,
         HF_T_PROXY_REFUSED, HF_O_PROXY, 0},
        {"a user name too long for SOCKS", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 11,
         P | S | T, HF_T_INVALID_REQUEST, HF_O_LOCAL, 0},
        {"no SOCKS at all", CURLE_PROXY, 0, HF_P_PROXY, 0, 0, 2, P | S | T,
         HF_T_PROXY_PROTOCOL, HF_O_PROXY, 0},
        {"garbage for TLS right after the 200", CURLE_SSL_CONNECT_ERROR, 0, HF_P_TLS, 0,
         200, 0, P | T | K | X, HF_T_TLS_ERROR, HF_O_PROXY, 0},
        {"a close right after the 200", CURLE_SSL_CONNECT_ERROR, 0, HF_P_TLS, 0, 200, 0,
         P | T | K, HF_T_TLS_ERROR, HF_O_SITE, 0},
        {"an https proxy's certificate", CURLE_PEER_FAILED_VERIFICATION, 0, HF_P_PROXY,
         0, 0, 0, P | T | K, HF_T_CERTIFICATE_ERROR, HF_O_PROXY, 0},
    };
    CHECK_ROWS(rows);
}

static void each_limit_has_its_name_by_the_stage_it_ended(void) {
    static const row rows[] = {
        {"dns", 0, 0, HF_P_DNS, HF_DUE_CONNECT, 0, 0, 0, HF_T_DNS_TIMEOUT, HF_O_SITE,
         0},
        {"tcp", 0, 0, HF_P_CONNECT, HF_DUE_CONNECT, 0, 0, 0, HF_T_CONNECT_TIMEOUT,
         HF_O_SITE, 0},
        {"silent proxy", 0, 0, HF_P_PROXY, HF_DUE_CONNECT, 0, 0, P | T | K,
         HF_T_PROXY_TIMEOUT, HF_O_PROXY, 0},
        {"silent site behind a good tunnel", 0, 0, HF_P_TLS, HF_DUE_CONNECT, 200, 0,
         P | T | K, HF_T_TLS_TIMEOUT, HF_O_SITE, 0},
        {"silent site behind SOCKS", 0, 0, HF_P_FIRST_BYTE, HF_DUE_FIRST_BYTE, 0, 0,
         P | S | T, HF_T_FIRST_BYTE_TIMEOUT, HF_O_SITE, 0},
        {"tls", 0, 0, HF_P_TLS, HF_DUE_CONNECT, 0, 0, K, HF_T_TLS_TIMEOUT, HF_O_SITE,
         0},
        {"first byte", 0, 0, HF_P_FIRST_BYTE, HF_DUE_FIRST_BYTE, 0, 0, 0,
         HF_T_FIRST_BYTE_TIMEOUT, HF_O_SITE, 0},
        {"idle in the body", 0, 0, HF_P_BODY, HF_DUE_IDLE, 0, 0, B, HF_T_IDLE_TIMEOUT,
         HF_O_SITE, HF_TRUNC_TIME},
        {"soft in the body", 0, 0, HF_P_BODY, HF_DUE_SOFT, 0, 0, B, HF_T_TIMEOUT,
         HF_O_SITE, HF_TRUNC_TIME},
        {"soft while connecting", 0, 0, HF_P_CONNECT, HF_DUE_SOFT, 0, 0, 0,
         HF_T_TIMEOUT, HF_O_SITE, 0},
        {"hard in the head", 0, 0, HF_P_HEADERS, HF_DUE_HARD, 0, 0, G,
         HF_T_HARD_TIMEOUT, HF_O_SITE, 0},
        {"job", 0, 0, HF_P_FIRST_BYTE, HF_DUE_JOB, 0, 0, 0, HF_T_DEADLINE, HF_O_LOCAL,
         0},
        {"job in the body, by proxy", 0, 0, HF_P_BODY, HF_DUE_JOB, 0, 0, B | P,
         HF_T_DEADLINE, HF_O_LOCAL, HF_TRUNC_TIME},
        {"libcurl's own limit", CURLE_OPERATION_TIMEDOUT, 0, HF_P_FIRST_BYTE, 0, 0, 0,
         0, HF_T_TIMEOUT, HF_O_SITE, 0},
        {"libcurl's own limit, name server", CURLE_OPERATION_TIMEDOUT, 0, HF_P_DNS, 0,
         0, 0, 0, HF_T_DNS_TIMEOUT, HF_O_SITE, 0},
    };
    CHECK_ROWS(rows);
}

static void an_answer_can_break_in_many_ways(void) {
    static const row rows[] = {
        {"tls alert", CURLE_SSL_CONNECT_ERROR, 0, HF_P_TLS, 0, 0, 0, K, HF_T_TLS_ERROR,
         HF_O_SITE, 0},
        {"certificate", CURLE_PEER_FAILED_VERIFICATION, 0, HF_P_TLS, 0, 0, 0, K,
         HF_T_CERTIFICATE_ERROR, HF_O_SITE, 0},
        {"closed without a byte", CURLE_GOT_NOTHING, 0, HF_P_FIRST_BYTE, 0, 0, 0, 0,
         HF_T_EMPTY_REPLY, HF_O_SITE, 0},
        {"reset without a byte", CURLE_RECV_ERROR, ECONNRESET, HF_P_FIRST_BYTE, 0, 0, 0,
         0, HF_T_CONNECTION_RESET, HF_O_SITE, 0},
        {"reset inside the head", CURLE_RECV_ERROR, ECONNRESET, HF_P_HEADERS, 0, 0, 0,
         G, HF_T_CONNECTION_RESET, HF_O_SITE, 0},
        {"not HTTP", CURLE_WEIRD_SERVER_REPLY, 0, HF_P_HEADERS, 0, 0, 0, G,
         HF_T_BAD_RESPONSE, HF_O_SITE, 0},
        {"HTTP/0.9", CURLE_UNSUPPORTED_PROTOCOL, 0, HF_P_FIRST_BYTE, 0, 0, 0, 0,
         HF_T_BAD_RESPONSE, HF_O_SITE, 0},
        {"send failed", CURLE_SEND_ERROR, EPIPE, HF_P_SEND, 0, 0, 0, 0, HF_T_SEND_ERROR,
         HF_O_SITE, 0},
        {"head too large for libcurl", CURLE_TOO_LARGE, 0, HF_P_HEADERS, 0, 0, 0, G,
         HF_T_HEADERS_TOO_LARGE, HF_O_SITE, 0},
        {"h2 session", CURLE_HTTP2, 0, HF_P_FIRST_BYTE, 0, 0, 0, K, HF_T_HTTP2_ERROR,
         HF_O_SITE, 0},
        {"h2 stream", CURLE_HTTP2_STREAM, 0, HF_P_HEADERS, 0, 0, 0, K | G,
         HF_T_HTTP2_ERROR, HF_O_SITE, 0},
        {"cut by close", CURLE_PARTIAL_FILE, 0, HF_P_BODY, 0, 0, 0, B, HF_T_INCOMPLETE,
         HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"cut by reset", CURLE_RECV_ERROR, ECONNRESET, HF_P_BODY, 0, 0, 0, B,
         HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"closed within the status line", CURLE_GOT_NOTHING, 0, HF_P_HEADERS, 0, 0, 0,
         G, HF_T_BAD_RESPONSE, HF_O_SITE, 0},
        {"broken chunk", CURLE_RECV_ERROR, 0, HF_P_BODY, 0, 0, 0, B | C,
         HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"a trailer that is none", CURLE_WEIRD_SERVER_REPLY, 0, HF_P_BODY, 0, 0, 0,
         B | C, HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"a trailer too large", CURLE_TOO_LARGE, 0, HF_P_BODY, 0, 0, 0, B | C | K,
         HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"broken chunk inside TLS", CURLE_RECV_ERROR, 0, HF_P_BODY, 0, 0, 0,
         B | C | K | E, HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"no close_notify within chunks", CURLE_RECV_ERROR, 0, HF_P_BODY, 0, 0, 0,
         B | C | K, HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"no close_notify, no length", CURLE_RECV_ERROR, 0, HF_P_BODY, 0, 0, 0, B | K,
         HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"a bad frame within an h2 body", CURLE_HTTP2, 0, HF_P_BODY, 0, 0, 0,
         B | K | H | W, HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"a bad frame right behind an h2 head", CURLE_HTTP2, 0, HF_P_BODY, 0, 0, 0,
         B | K | H | E, HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_FRAMING},
        {"an end behind an h2 head", CURLE_HTTP2, 0, HF_P_BODY, 0, 0, 0, B | K | H,
         HF_T_INCOMPLETE, HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"libcurl could not decode", CURLE_BAD_CONTENT_ENCODING, 0, HF_P_DECODE, 0, 0,
         0, B, HF_T_BAD_ENCODING, HF_O_SITE, HF_TRUNC_DECODE},
        {"libcurl could not decode zstd", CURLE_WRITE_ERROR, 0, HF_P_DECODE, 0, 0, 0, B,
         HF_T_BAD_ENCODING, HF_O_SITE, HF_TRUNC_DECODE},
        {"cut h2 body", CURLE_HTTP2_STREAM, 0, HF_P_BODY, 0, 0, 0, B, HF_T_INCOMPLETE,
         HF_O_SITE, HF_TRUNC_DISCONNECT},
        {"an h3 stream reset before the response", CURLE_HTTP3, 0, HF_P_FIRST_BYTE, 0,
         0, 0, K, HF_T_CONNECTION_RESET, HF_O_SITE, 0},
        {"an h3 stream reset behind a 103", CURLE_HTTP3, 0, HF_P_HEADERS, 0, 0, 0,
         K | G, HF_T_BAD_RESPONSE, HF_O_SITE, 0},
        {"silent proxy without a tunnel", CURLE_GOT_NOTHING, 0, HF_P_FIRST_BYTE, 0, 0,
         0, P, HF_T_EMPTY_REPLY, HF_O_PROXY, 0},
        {"no memory", CURLE_OUT_OF_MEMORY, 0, HF_P_BODY, 0, 0, 0, B, HF_T_OUT_OF_MEMORY,
         HF_O_LOCAL, HF_TRUNC_DISCONNECT},
        {"no CA bundle", CURLE_SSL_CACERT_BADFILE, 0, HF_P_TLS, 0, 0, 0, K,
         HF_T_INTERNAL, HF_O_LOCAL, 0},
    };
    CHECK_ROWS(rows);
}

/* Whatever facts come together, the lists stay closed. */
static void every_combination_gives_a_listed_outcome(void) {
    int wrong = 0;
    for (int code = 0; code <= 105; code++) {
        for (int phase = 0; phase < HF_P_COUNT; phase++) {
            for (int due = HF_DUE_NONE; due <= HF_DUE_JOB; due++) {
                for (int facts = 0; facts < 1024; facts += 7) {
                    row r = {"",        code,  0, phase, due, code % 3 ? 0 : 200 + code,
                             code % 40, facts, 0, 0,     0};
                    hf_outcome o = classify(&r);
                    if (o.type <= HF_T_NONE || o.type >= HF_T_COUNT || o.origin < 0 ||
                        o.origin >= HF_O_COUNT || o.truncated < 0 ||
                        o.truncated > HF_TRUNC_DECODE || o.message[0] == '\0' ||
                        (o.truncated != 0 && (facts & B) == 0)) {
                        wrong++;
                    }
                }
            }
        }
    }
    CHECK_EQ(wrong, 0);
}

static void names_are_the_contracts(void) {
    CHECK(hf_truncated_name(HF_TRUNC_NONE) == NULL);
    CHECK(strcmp(hf_truncated_name(HF_TRUNC_SIZE), "size") == 0);
    CHECK(strcmp(hf_truncated_name(HF_TRUNC_DECODE), "decode") == 0);
    CHECK(hf_truncated_name(99) == NULL && hf_truncated_name(-1) == NULL);
    hf_outcome o;
    hf_outcome_ok(&o);
    CHECK(o.type == HF_T_NONE && o.overrun == -1 && !hf_outcome_retryable(&o));
    for (int t = 1; t < HF_T_COUNT; t++) {
        hf_outcome_set(&o, t, HF_P_BODY, HF_O_SITE, NULL);
        CHECK(o.message[0] != '\0');
        CHECK(strcmp(hf_type_name(t), "internal") != 0 || t == HF_T_INTERNAL);
    }
    hf_outcome_set(&o, HF_T_BAD_REDIRECT, 0, 0, "%300d", 1);
    CHECK_EQ(strlen(o.message), sizeof o.message - 1);
}

static void a_certificate_says_what_is_wrong_with_it(void) {
    static const struct {
        int verify;
        const char *says;
    } rows[] = {{0, "be verified"},    {1, "another host"}, {62, "another host"},
                {9, "not valid yet"},  {10, "expired"},     {18, "self-signed"},
                {20, "not signed by"}, {23, "revoked"},     {999, "be verified"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hf_ending e = {.curl_code = CURLE_PEER_FAILED_VERIFICATION,
                       .phase = HF_P_TLS,
                       .verify = rows[i].verify,
                       .untrusted = true,
                       .tls = true};
        hf_outcome o;
        hf_outcome_classify(&e, &o);
        CHECK(strstr(o.message, rows[i].says) != NULL);
        CHECK(strncmp(o.message, "the certificate ", 16) == 0);
        e.proxied = true;
        e.phase = HF_P_PROXY;
        hf_outcome_classify(&e, &o);
        CHECK(strncmp(o.message, "the proxy's certificate ", 24) == 0);
    }
}

static void only_what_another_attempt_could_change_is_retryable(void) {
    static const int final[] = {HF_T_INVALID_REQUEST, HF_T_BLOCKED_ADDRESS,
                                HF_T_CANCELLED,       HF_T_DEADLINE,
                                HF_T_REDIRECT_LOOP,   HF_T_BAD_REDIRECT,
                                HF_T_ROBOTS_DENIED,   HF_T_TOO_MANY_REDIRECTS};
    static const int again[] = {HF_T_DNS_TIMEOUT,      HF_T_PROXY_AUTH,
                                HF_T_CONNECTION_RESET, HF_T_TIMEOUT,
                                HF_T_INCOMPLETE,       HF_T_ENGINE_STALLED};
    hf_outcome o;
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
        hf_outcome_set(&o, final[i], HF_P_BODY, HF_O_SITE, NULL);
        CHECK(!hf_outcome_retryable(&o));
    }
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
        hf_outcome_set(&o, again[i], HF_P_BODY, HF_O_SITE, NULL);
        CHECK(hf_outcome_retryable(&o));
    }
    hf_outcome_set(&o, HF_T_CERTIFICATE_ERROR, HF_P_PROXY, HF_O_PROXY, NULL);
    CHECK(hf_outcome_retryable(&o));
    hf_outcome_set(&o, HF_T_CERTIFICATE_ERROR, HF_P_TLS, HF_O_SITE, NULL);
    CHECK(!hf_outcome_retryable(&o));
}

int main(void) {
    RUN(names_and_connections_are_told_apart);
    RUN(what_a_proxy_says_is_the_proxys_or_the_sites);
    RUN(each_limit_has_its_name_by_the_stage_it_ended);
    RUN(an_answer_can_break_in_many_ways);
    RUN(every_combination_gives_a_listed_outcome);
    RUN(names_are_the_contracts);
    RUN(a_certificate_says_what_is_wrong_with_it);
    RUN(only_what_another_attempt_could_change_is_retryable);
    return check_result();
}
