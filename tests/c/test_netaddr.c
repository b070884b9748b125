#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "check.h"
#include "netaddr.h"

static int is_public(const char *text, const hf_nets *allow) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        return hf_addr_public((struct sockaddr *)&in, allow);
    }
    REQUIRE(inet_pton(AF_INET6, text, &in6.sin6_addr) == 1);
    return hf_addr_public((struct sockaddr *)&in6, allow);
}

static void the_first_and_last_of_each_private_net_are_refused(void) {
    static const char *const inside[] = {
        "0.0.0.0",         "0.255.255.255",   "10.0.0.0",        "10.255.255.255",
        "100.64.0.0",      "100.127.255.255", "127.0.0.1",       "127.255.255.255",
        "169.254.0.0",     "169.254.169.254", "169.254.255.255", "172.16.0.0",
        "172.31.255.255",  "192.0.0.0",       "192.0.0.255",     "192.0.2.0",
        "192.88.99.1",     "192.168.0.0",     "192.168.255.255", "198.18.0.0",
        "198.19.255.255",  "198.51.100.7",    "203.0.113.255",   "224.0.0.1",
        "239.255.255.255", "240.0.0.0",       "255.255.255.255"};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        if (!CHECK(!is_public(inside[i], NULL))) {
            fprintf(stderr, "  %s\n", inside[i]);
        }
    }
}

static void their_neighbours_are_public(void) {
    static const char *const outside[] = {
        "1.0.0.0",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",     "126.255.255.255", "128.0.0.0",       "169.253.255.255",
        "169.255.0.0",     "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
        "192.0.3.0",       "192.88.98.255",   "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",      "198.51.99.255",   "203.0.114.0",
        "223.255.255.255", "8.8.8.8"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        if (!CHECK(is_public(outside[i], NULL))) {
            fprintf(stderr, "  %s\n", outside[i]);
        }
    }
}

static void ipv6_is_public_only_where_it_is_given_out(void) {
    static const char *const inside[] = {
        "::",          "::1",         "::7f00:1",  "::808:808",  "100::1",
        "fc00::1",     "fd12::1",     "fe80::1",   "fec0::1",    "ff02::1",
        "2001:db8::1", "2001::1",     "2001:2::1", "2001:10::1", "2001:1ff:ffff::1",
        "3fff::1",     "3fff:fff::1", "4000::1",   "5f00::1",    "64:ff9b:1::1",
        "1fff::1"};
    static const char *const outside[] = {
        "2000::1", "2001:200::1",  "2001:4860:4860::8888", "2001:db7::1", "2001:db9::1",
        "2003::1", "2a00:1450::1", "3fff:1000::1",         "3ffe::1"};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        if (!CHECK(!is_public(inside[i], NULL))) {
            fprintf(stderr, "  %s\n", inside[i]);
        }
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        if (!CHECK(is_public(outside[i], NULL))) {
            fprintf(stderr, "  %s\n", outside[i]);
        }
    }
}

static void an_ipv4_address_inside_ipv6_decides(void) {
    CHECK(!is_public("::ffff:127.0.0.1", NULL));
    CHECK(!is_public("::ffff:10.1.2.3", NULL));
    CHECK(is_public("::ffff:8.8.8.8", NULL));
    CHECK(!is_public("64:ff9b::127.0.0.1", NULL));
    CHECK(!is_public("64:ff9b::169.254.169.254", NULL));
    CHECK(is_public("64:ff9b::8.8.8.8", NULL));
    CHECK(!is_public("2002:7f00:1::1", NULL));
    CHECK(!is_public("2002:c0a8:101::1", NULL));
    CHECK(is_public("2002:808:808::1", NULL));
}

static void other_families_are_refused(void) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    CHECK(!hf_addr_public((struct sockaddr *)&un, NULL));
}

static void allowed_nets_let_their_addresses_through(void) {
    static const char *const texts[] = {"10.1.0.0/16", "127.0.0.1",        "fd00::/8",
                                        "::1/128",     "192.168.128.0/17", NULL};
    hf_nets nets;
    REQUIRE(hf_nets_parse(texts, &nets, (hf_errbuf){NULL, 0}) == 0);
    CHECK_EQ(nets.count, 5);
    CHECK(is_public("10.1.255.255", &nets) && !is_public("10.2.0.0", &nets));
    CHECK(is_public("::ffff:10.1.0.1", &nets) && is_public("64:ff9b::10.1.0.1", &nets));
    CHECK(is_public("127.0.0.1", &nets) && !is_public("127.0.0.2", &nets));
    CHECK(is_public("fdff::1", &nets) && !is_public("fc00::1", &nets));
    CHECK(is_public("::1", &nets) && !is_public("::2", &nets));
    CHECK(is_public("192.168.128.0", &nets) && !is_public("192.168.127.255", &nets));
    CHECK(is_public("8.8.8.8", &nets));
    hf_nets_free(&nets);
    static const char *const all4[] = {"0.0.0.0/0", NULL};
    REQUIRE(hf_nets_parse(all4, &nets, (hf_errbuf){NULL, 0}) == 0);
    CHECK(is_public("127.0.0.1", &nets) && !is_public("::1", &nets));
    hf_nets_free(&nets);
    static const char *const all6[] = {"::/0", NULL};
    REQUIRE(hf_nets_parse(all6, &nets, (hf_errbuf){NULL, 0}) == 0);
    CHECK(is_public("::1", &nets));
    hf_nets_free(&nets);
}

static void no_nets_are_an_empty_list(void) {
    static const char *const none[] = {NULL};
    hf_nets nets;
    CHECK_EQ(hf_nets_parse(none, &nets, (hf_errbuf){NULL, 0}), 0);
    CHECK(nets.count == 0 && nets.list == NULL);
    CHECK_EQ(hf_nets_parse(NULL, &nets, (hf_errbuf){NULL, 0}), 0);
    CHECK(!is_public("127.0.0.1", &nets));
    hf_nets_free(&nets);
}

static void a_bad_net_is_named_with_its_remedy(void) {
    static const char *const bad[][2] = {
        {"", "not a net"},
        {"10.0.0.0/", "from 0 to 32"},
        {"10.0.0.0/33", "from 0 to 32"},
        {"10.0.0.0/-1", "from 0 to 32"},
        {"10.0.0.0/8x", "from 0 to 32"},
        {"10.0.0.0/99999999999999999999", "from 0 to 32"},
        {"fd00::/129", "from 0 to 128"},
        {"10.1.2.3/8", "write 10.0.0.0/8"},
        {"fd00::1/8", "write fd00::/8"},
        {"10.0.0/8", "not a net"},
        {"example.com", "not a net"},
        {"/8", "not a net"},
        {"[::1]", "not a net"},
        {"::1%lo", "not a net"},
        {"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc/8", "not a net"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *texts[] = {"10.0.0.0/8", bad[i][0], NULL};
        char why[256] = "";
        hf_nets nets;
        CHECK_EQ(hf_nets_parse(texts, &nets, (hf_errbuf){why, sizeof why}), HF_EINVAL);
        CHECK(nets.list == NULL && nets.count == 0);
        if (!CHECK(strstr(why, bad[i][1]) != NULL)) {
            fprintf(stderr, "  '%s' gave '%s'\n", bad[i][0], why);
        }
    }
}

int main(void) {
    RUN(the_first_and_last_of_each_private_net_are_refused);
    RUN(their_neighbours_are_public);
    RUN(ipv6_is_public_only_where_it_is_given_out);
    RUN(an_ipv4_address_inside_ipv6_decides);
    RUN(other_families_are_refused);
    RUN(allowed_nets_let_their_addresses_through);
    RUN(no_nets_are_an_empty_list);
    RUN(a_bad_net_is_named_with_its_remedy);
    return check_result();
}
