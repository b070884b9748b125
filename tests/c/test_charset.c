#include "charset.h"

#include "check.h"
#include "cjk_tables.h"
#include "err.h"
#include "fence.h"
#include "utf8.h"

static const char *const names[] = {
    "utf-8",          "utf-16le",       "utf-16be",     "ibm866",       "iso-8859-2",
    "iso-8859-3",     "iso-8859-4",     "iso-8859-5",   "iso-8859-6",   "iso-8859-7",
    "iso-8859-8",     "iso-8859-8-i",   "iso-8859-10",  "iso-8859-13",  "iso-8859-14",
    "iso-8859-15",    "iso-8859-16",    "koi8-r",       "koi8-u",       "macintosh",
    "windows-874",    "windows-1250",   "windows-1251", "windows-1252", "windows-1253",
    "windows-1254",   "windows-1255",   "windows-1256", "windows-1257", "windows-1258",
    "x-mac-cyrillic", "x-user-defined", "gbk",          "gb18030",      "big5",
    "euc-jp",         "iso-2022-jp",    "shift_jis",    "euc-kr",
};
enum { NAMES = sizeof names / sizeof names[0] };

static const hf_charset *find(const char *label) {
    return hf_charset_find((const uint8_t *)label, strlen(label));
}

static int is_called(const char *label, const char *name) {
    const hf_charset *cs = find(label);
    return cs != NULL && strcmp(hf_charset_name(cs), name) == 0;
}

static void every_charset_is_found_under_its_own_name(void) {
    for (size_t i = 0; i < NAMES; i++)
        CHECK(is_called(names[i], names[i]));
}

static void labels_mean_what_browsers_take_them_for(void) {
    static const char *const pairs[][2] = {
        {"latin1", "windows-1252"},
        {"ISO-8859-1", "windows-1252"},
        {"us-ascii", "windows-1252"},
        {"\t UTF8\r\n", "utf-8"},
        {"GB2312", "gbk"},
        {"Shift-JIS", "shift_jis"},
        {"utf-16", "utf-16le"},
        {"iso-8859-9", "windows-1254"},
        {"ks_c_5601-1987", "euc-kr"},
        {"tis-620", "windows-874"},
        {"866", "ibm866"},
        {"x-x-big5", "big5"},
        {"hz-gb-2312", "hz-gb-2312"},
        {"koi8-ru", "koi8-u"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        CHECK(is_called(pairs[i][0], pairs[i][1]));
}

static void what_is_no_label_is_not_found(void) {
    static const char *const junk[] = {
        "",
        " ",
        "none",
        "undefined",
        "utf-8,gbk",
        "uft-8",
        "ISO-88509-1",
        "idna",
        "utf-7",
        "utf-8;",
        "\"utf-8\"",
        "hex",
        "utf\xe2\x80\x90-",
        "utf-32",
    };
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        CHECK(find(junk[i]) == NULL);
    CHECK(hf_charset_find((const uint8_t *)"utf-8\0", 6) == NULL);
    CHECK(hf_charset_find(NULL, 0) == NULL);
    static uint8_t many[10240];
    memset(many, 'a', sizeof many);
    CHECK(hf_charset_find(many, sizeof many) == NULL);
    memset(many, ' ', sizeof many);
    memcpy(many + 5000, "gbk", 3);
    CHECK(hf_charset_find(many, sizeof many) == find("gbk"));
}

static int decodes(const char *label, const char *s, size_t n, const char *want) {
    uint8_t o[256];
    int64_t len = hf_charset_decode(find(label), o, (const uint8_t *)s, n);
    if (want == NULL)
        return len == HF_EBAD;
    return len == (int64_t)strlen(want) && memcmp(o, want, (size_t)len) == 0;
}

#define GIVES(label, bytes, text) CHECK(decodes(label, bytes, sizeof(bytes) - 1, text))
#define REFUSES(label, bytes) CHECK(decodes(label, bytes, sizeof(bytes) - 1, NULL))

static void text_of_each_kind_is_read(void) {
    GIVES("windows-1252", "caf\xe9 \x80\x81", "café €\xc2\x81");
    GIVES("windows-1251", "\xcf\xf0\xe8\xe2\xe5\xf2", "Привет");
    GIVES("koi8-r", "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет");
    GIVES("iso-8859-15", "\xa4", "€");
    GIVES("gbk", "\xc4\xe3\xba\xc3 a \x80", "你好 a €");
    GIVES("gb18030", "\x94\x39\xda\x33\x81\x30\x81\x30", "💩\xc2\x80");
    GIVES("gb18030", "\x90\x30\x81\x30\xe3\x32\x9a\x35",
          "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    GIVES("big5", "\xa7\x41\xa6\x6e\x88\x62\x88\xa5", "你好Ê̄ê̌");
    GIVES("shift_jis", "\x82\xb1\xb1\x5c\x81\x60", "こｱ\\～");
    GIVES("euc-jp", "\xa4\xb3\x8e\xb1\x8f\xb0\xa1", "こｱ丂");
    GIVES("iso-2022-jp", "a\x1b$B$3\x1b(J\\\x1b(I1\x1b(Bb", "aこ¥ｱb");
    GIVES("euc-kr", "\xc7\xd1\xb1\xdb\x81\x41", "한글갂");
    GIVES("x-user-defined", "a\x80\xff", "a\xef\x9e\x80\xef\x9f\xbf");
}

/* FNV-1a over the cells of tables that went into tools/pack_cells.py. */
#define TABLE_IS(name, want)                                             \
    do {                                                                 \
        hf_need_##name();                                                \
        uint64_t h = 0xcbf29ce484222325;                                 \
        size_t n = sizeof hf_##name##_index / sizeof *hf_##name##_index; \
        for (size_t i = 0; i < n; i++)                                   \
            h = (h ^ hf_##name##_index[i]) * 0x100000001b3;              \
        CHECK(h == (want));                                              \
    } while (0)

static void each_cell_of_the_two_byte_tables_is_unpacked_as_it_was_packed(void) {
    TABLE_IS(gbk, 0xdc3908ae743170f1);
    TABLE_IS(big5, 0x657be05b48f985c9);
    TABLE_IS(jis0208, 0xb9914789e354c8f1);
    TABLE_IS(jis0212, 0x8f51c363d8518bbd);
    TABLE_IS(euc_kr, 0x6e57ae5e71bb350a);
}

static void utf16_is_read_in_both_orders_and_its_pairs_are_checked(void) {
    GIVES("utf-16le", "a\0\xac\x20\x3d\xd8\x00\xde", "a€😀");
    GIVES("utf-16be", "\0a\x20\xac\xd8\x3d\xde\x00", "a€😀");
    REFUSES("utf-16le", "a\0b");
    REFUSES("utf-16le", "\x3d\xd8");
    REFUSES("utf-16le", "\x3d\xd8"
                        "a\0");
    REFUSES("utf-16le", "\x00\xde");
    REFUSES("utf-16be", "\xd8\x3d\xd8\x3d");
}

static void bytes_that_stand_for_nothing_are_refused(void) {
    REFUSES("windows-1253", "\xaa");
    REFUSES("iso-8859-7", "\xff");
    REFUSES("gbk", "\xff");
    REFUSES("gbk", "a\x81");
    REFUSES("gbk", "\x81 ");
    REFUSES("gb18030", "\x84\x31\xa5\x30");
    REFUSES("gb18030", "\x81\x30\x81");
    REFUSES("gb18030", "\xe3\x32\x9a\x36");
    REFUSES("big5", "\x80\x40");
    REFUSES("big5", "\xa7");
    REFUSES("shift_jis", "\xa0");
    REFUSES("shift_jis", "\x81");
    REFUSES("shift_jis", "\xfd\x45");
    REFUSES("euc-jp", "\x8e\xe0");
    REFUSES("euc-jp", "\x8f\xb0");
    REFUSES("euc-jp", "\x80");
    REFUSES("euc-kr", "\xc7");
    REFUSES("iso-2022-jp", "\x1b(X");
    REFUSES("iso-2022-jp", "\x1b$");
    REFUSES("iso-2022-jp", "\x1b$B$");
    REFUSES("iso-2022-jp", "\x1b$B$\n");
    REFUSES("iso-2022-jp", "\x1b$B\0");
    REFUSES("iso-2022-jp", "\x1b(I\0");
    REFUSES("iso-2022-jp", "\x0e");
    REFUSES("iso-2022-jp", "\xa4\xb3");
    REFUSES("iso-2022-kr", "abc");
    REFUSES("utf-8", "\xed\xa0\x80");
}

static void ascii_is_kept_where_it_is_kept(void) {
    CHECK(hf_charset_keeps_ascii(find("gbk"), (const uint8_t *)"a", 1));
    CHECK(hf_charset_keeps_ascii(find("iso-2022-jp"), (const uint8_t *)"a", 1));
    CHECK(!hf_charset_keeps_ascii(find("iso-2022-jp"), (const uint8_t *)"\x1b(J", 3));
    CHECK(!hf_charset_keeps_ascii(find("utf-16le"), (const uint8_t *)"ab", 2));
    CHECK(!hf_charset_keeps_ascii(find("iso-2022-kr"), (const uint8_t *)"a", 1));
    uint8_t s[128];
    uint8_t o[400];
    for (size_t i = 0; i < 128; i++)
        s[i] = (uint8_t)i;
    for (size_t i = 0; i < NAMES; i++) {
        if (!hf_charset_keeps_ascii(find(names[i]), s, 128))
            continue;
        CHECK_EQ(hf_charset_decode(find(names[i]), o, s, 128), 128);
        CHECK(memcmp(o, s, 128) == 0);
    }
}

/* Random bytes, likely ones first, in the tightest memory: what comes out is UTF-8. */
static void any_bytes_give_utf8_within_their_room_or_a_refusal(void) {
    static const uint8_t likely[] = {0x1b, '$',  '(',  'B',  'J',  'I',
                                     '@',  0x30, 0x39, 0x81, 0x8e, 0x8f,
                                     0xfe, 0xff, 0x40, 0x7e, 0x80};
    fence in = fence_new(256);
    fence out = fence_new(3 * 256 + 16);
    uint64_t seed = 5;
    for (int round = 0; round < 40000; round++) {
        const hf_charset *cs = find(names[fence_random(&seed) % NAMES]);
        size_t n = fence_random(&seed) % (round % 4 == 0 ? 200 : 8);
        uint8_t *s = in.end - n;
        for (size_t i = 0; i < n; i++) {
            uint32_t r = fence_random(&seed);
            s[i] = r % 3 == 0   ? likely[r / 3 % sizeof likely]
                   : r % 3 == 1 ? (uint8_t)(0x80 | r >> 8)
                                : (uint8_t)(r >> 8);
        }
        uint8_t *o = out.end - hf_charset_room(n);
        int64_t len = hf_charset_decode(cs, o, s, n);
        CHECK(len == HF_EBAD || (len >= 0 && hf_utf8_valid(o, (size_t)len)));
    }
    CHECK(hf_charset_room(SIZE_MAX / 3) == SIZE_MAX);
}

int main(void) {
    RUN(every_charset_is_found_under_its_own_name);
    RUN(labels_mean_what_browsers_take_them_for);
    RUN(what_is_no_label_is_not_found);
    RUN(text_of_each_kind_is_read);
    RUN(each_cell_of_the_two_byte_tables_is_unpacked_as_it_was_packed);
    RUN(utf16_is_read_in_both_orders_and_its_pairs_are_checked);
    RUN(bytes_that_stand_for_nothing_are_refused);
    RUN(ascii_is_kept_where_it_is_kept);
    RUN(any_bytes_give_utf8_within_their_room_or_a_refusal);
    return check_result();
}
