"""Write the charset tables of csrc/ from CPython's codecs.

Run as ``python3 tools/make_charsets.py csrc``; the result is committed, so that a build
needs no generator and does not depend on the codecs of the Python that builds.

The target is what browsers do (the WHATWG Encoding Standard). CPython's codecs differ
from it in few places; each is patched below, beside its table.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

from pack_cells import as_words, pack_cells

HEAD = "/* Written by tools/make_charsets.py; change that. */\n"

# Single-byte charsets: the name as in a record, and CPython's codec.
SINGLE = {
    "ibm866": "cp866",
    "iso-8859-2": "iso8859_2",
    "iso-8859-3": "iso8859_3",
    "iso-8859-4": "iso8859_4",
    "iso-8859-5": "iso8859_5",
    "iso-8859-6": "iso8859_6",
    "iso-8859-7": "iso8859_7",
    "iso-8859-8": "iso8859_8",
    "iso-8859-8-i": "iso8859_8",
    "iso-8859-10": "iso8859_10",
    "iso-8859-13": "iso8859_13",
    "iso-8859-14": "iso8859_14",
    "iso-8859-15": "iso8859_15",
    "iso-8859-16": "iso8859_16",
    "koi8-r": "koi8_r",
    "koi8-u": "koi8_u",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "windows-1252": "cp1252",
    "windows-1253": "cp1253",
    "windows-1254": "cp1254",
    "windows-1255": "cp1255",
    "windows-1256": "cp1256",
    "windows-1257": "cp1257",
    "windows-1258": "cp1258",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-user-defined": "",
}
# All others: the name, and the HF_CS_ kind that decodes it.
OTHERS = {
    "utf-8": "UTF8",
    "utf-16le": "UTF16LE",
    "utf-16be": "UTF16BE",
    "gbk": "GB18030",
    "gb18030": "GB18030",
    "big5": "BIG5",
    "euc-jp": "EUC_JP",
    "iso-2022-jp": "ISO_2022_JP",
    "shift_jis": "SHIFT_JIS",
    "euc-kr": "EUC_KR",
    # Browsers refuse to decode these. The name is worth more than "replacement".
    "iso-2022-kr": "NEVER",
    "iso-2022-cn": "NEVER",
    "iso-2022-cn-ext": "NEVER",
    "hz-gb-2312": "NEVER",
}
# Labels besides the names, of the Encoding Standard; an indented line goes on.
LABELS = """
ibm866: 866 cp866 csibm866
iso-8859-2: csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2
    latin2
iso-8859-3: csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3
    latin3
iso-8859-4: csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4
    latin4
iso-8859-5: csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5
    iso_8859-5:1988
iso-8859-6: arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114
    iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6
    iso_8859-6:1987
iso-8859-7: csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7
    iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek
iso-8859-8: csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8
    iso88598 iso_8859-8 iso_8859-8:1988 visual
iso-8859-8-i: csiso88598i logical
iso-8859-10: csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso-8859-13: iso8859-13 iso885913
iso-8859-14: iso8859-14 iso885914
iso-8859-15: csisolatin9 iso8859-15 iso885915 iso_8859-15 l9
koi8-r: cskoi8r koi koi8 koi8_r
koi8-u: koi8-ru
macintosh: csmacintosh mac x-mac-roman
windows-874: dos-874 iso-8859-11 iso8859-11 iso885911 tis-620
windows-1250: cp1250 x-cp1250
windows-1251: cp1251 x-cp1251
windows-1252: ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1
    iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii
    x-cp1252
windows-1253: cp1253 x-cp1253
windows-1254: cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9
    iso_8859-9:1989 l5 latin5 x-cp1254
windows-1255: cp1255 x-cp1255
windows-1256: cp1256 x-cp1256
windows-1257: cp1257 x-cp1257
windows-1258: cp1258 x-cp1258
x-mac-cyrillic: x-mac-ukrainian
utf-8: unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8
utf-16le: csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16
utf-16be: unicodefffe
gbk: chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk
big5: big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp: cseucpkdfmtjapanese x-euc-jp
iso-2022-jp: csiso2022jp
shift_jis: csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis
euc-kr: cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989
    ksc5601 ksc_5601 windows-949
iso-2022-kr: csiso2022kr
"""

GB18030_PATCH = {0xA3A0: 0x3000, 0xA8BC: 0x1E3F}
GB18030_PATCH |= dict(
    zip(
        [
            0xA6D9,
            0xA6DA,
            0xA6DB,
            0xA6DC,
            0xA6DD,
            0xA6DE,
            0xA6DF,
            0xA6EC,
            0xA6ED,
            0xA6F3,
        ],
        [
            0xFE10,
            0xFE12,
            0xFE11,
            0xFE13,
            0xFE14,
            0xFE15,
            0xFE16,
            0xFE17,
            0xFE18,
            0xFE19,
        ],
        strict=True,
    )
)
GB18030_PATCH |= dict(
    zip(
        [0xFE59, 0xFE61, 0xFE66, 0xFE67, 0xFE6D, 0xFE7E, 0xFE90, 0xFEA0],
        range(0x9FB4, 0x9FBC),
        strict=True,
    )
)
BIG5_PATCH = dict(
    zip(
        [
            0xA145,
            0xA14E,
            0xA1C2,
            0xA1E3,
            0xA1F2,
            0xA1F3,
            0xA241,
            0xA242,
            0xA244,
            0xA246,
            0xA247,
        ],
        [
            0x2027,
            0xFE51,
            0x00AF,
            0xFF5E,
            0x2295,
            0x2299,
            0x2215,
            0xFE68,
            0xFFE5,
            0xFFE0,
            0xFFE1,
        ],
        strict=True,
    )
)


def one(code: bytes, codec: str) -> int:
    """Return the code point that ``code`` stands for, 0 for none or several."""
    try:
        text = code.decode(codec)
    except UnicodeDecodeError:
        return 0
    return ord(text) if len(text) == 1 else 0


def single_table(name: str, codec: str) -> list[int]:
    """Return what bytes 80 to FF of a single-byte charset stand for."""
    if name == "x-user-defined":
        return list(range(0xF780, 0xF800))
    table = [one(bytes([byte]), codec) for byte in range(0x80, 0x100)]
    if name.startswith("windows-"):  # browsers map the holes there to controls
        table[:32] = [cp or byte for byte, cp in enumerate(table[:32], 0x80)]
    if name == "windows-1255":
        table[0xCA - 0x80] = 0x05BA
    if name == "koi8-u":
        table[0xAE - 0x80], table[0xBE - 0x80] = 0x045E, 0x040E
    return table


def two_bytes(
    leads: range, trails: list[int], codec: str, patch: dict[int, int]
) -> list[list[int]]:
    """Return rows of code points, a row for each lead byte."""
    return [
        [
            patch.get(lead << 8 | trail) or one(bytes([lead, trail]), codec)
            for trail in trails
        ]
        for lead in leads
    ]


def gb18030_ranges() -> list[tuple[int, int]]:
    """Return the pointer and code point where each run of four-byte forms starts.

    Of those below U+10000; the forms above it are one run that needs no table.
    """
    runs: list[tuple[int, int]] = []
    before = 0
    for pointer in range(39420):
        code = bytes(
            [
                0x81 + pointer // 12600,
                0x30 + pointer // 1260 % 10,
                0x81 + pointer // 10 % 126,
                0x30 + pointer % 10,
            ]
        )
        cp = one(code, "gb18030")
        if pointer == 7457:
            cp = 0xE7C7  # changed places with a two-byte form
        if not runs or cp != before + 1:
            runs.append((pointer, cp))
        before = cp
    return runs


def jis0208() -> list[list[int]]:
    """Return JIS X 0208 with Microsoft's rows, in rows of 188 as Shift_JIS has them."""
    trails = [*range(0x40, 0x7F), *range(0x80, 0xFD)]
    leads = [*range(0x81, 0xA0), *range(0xE0, 0xFD)]
    private = range(0xF0, 0xFA)  # computed by the decoder
    return [
        [
            0 if lead in private else one(bytes([lead, trail]), "cp932")
            for trail in trails
        ]
        for lead in leads
    ]


def jis0212() -> list[list[int]]:
    """Return JIS X 0212, in rows of 94."""
    cells = range(0xA1, 0xFF)
    patch = {0xA2B7: 0xFF5E}
    return [
        [
            patch.get(row << 8 | cell) or one(bytes([0x8F, row, cell]), "euc_jp")
            for cell in cells
        ]
        for row in cells
    ]


def packed_rows(name: str, rows: list[list[int]]) -> str:
    """Return a packed table as C."""
    words = [f"0x{word:016x}" for word in as_words(pack_cells(itertools.chain(*rows)))]
    lines = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    body = ",\n    ".join(lines)
    return f"const uint64_t hf_{name}_packed[] = {{\n    {body}}};\n"


def write_cjk(folder: Path) -> None:
    """Write cjk_data.c."""
    gbk = [*range(0x40, 0x7F), *range(0x80, 0xFF)]
    big5 = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    rows = two_bytes(range(0x81, 0xFF), gbk, "gb18030", GB18030_PATCH)
    parts = [HEAD, '#include "charset_data.h"\n\n/* clang-format off */\n']
    parts.append(packed_rows("gbk", rows))
    rows = two_bytes(range(0x87, 0xFF), big5, "big5hkscs", BIG5_PATCH)
    parts.append(packed_rows("big5", rows))
    parts.append(packed_rows("jis0208", jis0208()))
    parts.append(packed_rows("jis0212", jis0212()))
    rows = two_bytes(range(0x81, 0xFF), list(range(0x41, 0xFF)), "cp949", {})
    parts.append(packed_rows("euc_kr", rows))
    runs = gb18030_ranges()
    pairs = [f"{{{pointer}, 0x{cp:04x}}}" for pointer, cp in runs]
    lines = [", ".join(pairs[i : i + 5]) for i in range(0, len(pairs), 5)]
    parts.append("const hf_gb18030_run hf_gb18030_runs[] = {\n    ")
    parts.append(",\n    ".join(lines) + "};\n")
    parts.append(f"const size_t hf_gb18030_run_count = {len(runs)};\n")
    (folder / "cjk_data.c").write_text("".join(parts), encoding="utf-8")


def labels_by_name() -> dict[str, list[str]]:
    """Return the labels of each charset, its name first."""
    joined = re.sub(r"\n +", " ", LABELS.strip())
    more = dict(line.split(": ", 1) for line in joined.splitlines())
    return {name: [name, *more.get(name, "").split()] for name in [*SINGLE, *OTHERS]}


def write_charsets(folder: Path) -> None:
    """Write charset_data.c: single-byte tables, charsets and labels."""
    parts = [HEAD, '#include "charset_data.h"\n\n/* clang-format off */\n']
    charsets: list[str] = []
    tables: dict[str, str] = {}
    for name, codec in SINGLE.items():
        if codec not in tables:
            tables[codec] = "table_" + name.replace("-", "_")
            cells = [f"0x{cp:04x}" for cp in single_table(name, codec)]
            lines = [", ".join(cells[i : i + 8]) for i in range(0, 128, 8)]
            parts.append(f"static const uint16_t {tables[codec]}[128] = {{\n    ")
            parts.append(",\n    ".join(lines) + "};\n")
        charsets.append(f'    {{"{name}", HF_CS_SINGLE, {tables[codec]}}},\n')
    charsets += [
        f'    {{"{name}", HF_CS_{kind}, NULL}},\n' for name, kind in OTHERS.items()
    ]
    parts.append(
        "const struct hf_charset hf_charsets[] = {\n" + "".join(charsets) + "};\n"
    )
    parts.append("const hf_charset_label hf_charset_labels[] = {\n")
    named = enumerate(labels_by_name().values())
    labels = sorted((label, index) for index, group in named for label in group)
    parts += [f'    {{"{label}", {index}}},\n' for label, index in labels]
    parts.append(f"}};\nconst size_t hf_charset_label_count = {len(labels)};\n")
    (folder / "charset_data.c").write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    write_cjk(Path(sys.argv[1]))
    write_charsets(Path(sys.argv[1]))
