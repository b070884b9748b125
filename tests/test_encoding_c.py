"""The encoders and decoders in C against CPython's own: json, base64 and the codecs."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import random
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

CSRC = Path(__file__).parent.parent / "csrc"
MODULES = [
    "base64", "charset", "charset_data", "cjk", "cjk_data", "cjk_tables",
    "cpu", "escape", "ndjson",
]  # fmt: skip
SURROGATES = range(0xD800, 0xE000)
EVERY_CHARACTER = "".join(chr(cp) for cp in range(0x110000) if cp not in SURROGATES)
NOT_RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Encoders:
    """The functions under test, on bytes."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        for name in ["hf_json_escape", "hf_json_escape_latin1", "hf_base64_encode"]:
            getattr(self.lib, name).restype = ctypes.c_size_t
        for name in ["hf_json_escape_utf8", "hf_charset_decode"]:
            getattr(self.lib, name).restype = ctypes.c_int64
        self.lib.hf_charset_find.restype = ctypes.c_void_p
        self.lib.hf_charset_name.restype = ctypes.c_char_p
        self.lib.hf_json_us_as_seconds.restype = ctypes.c_size_t
        self.lib.hf_json_time.restype = ctypes.c_size_t

    def call(self, name: str, data: bytes) -> bytes | None:
        out = ctypes.create_string_buffer(6 * len(data) + 80)
        n = getattr(self.lib, name)(out, data, ctypes.c_size_t(len(data)))
        return None if n < 0 else ctypes.string_at(out, n)

    def valid(self, data: bytes) -> bool:
        return bool(self.lib.hf_utf8_valid(data, ctypes.c_size_t(len(data))))

    def number(self, name: str, value: int) -> str:
        out = ctypes.create_string_buffer(64)
        n = getattr(self.lib, name)(out, ctypes.c_int64(value))
        return ctypes.string_at(out, n).decode("ascii")

    def decode(self, label: str, data: bytes) -> str | None:
        found = self.lib.hf_charset_find(label.encode(), ctypes.c_size_t(len(label)))
        assert found, label
        out = ctypes.create_string_buffer(3 * len(data) + 16)
        n = self.lib.hf_charset_decode(
            ctypes.c_void_p(found), out, data, ctypes.c_size_t(len(data))
        )
        return None if n < 0 else ctypes.string_at(out, n).decode()


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    path = tmp_path_factory.mktemp("encoders") / "encoders.so"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    sources = [str(CSRC / f"{name}.c") for name in [*MODULES, "utf8"]]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared"]
    subprocess.run([*compiler, *flags, *sources, "-o", str(path)], check=True)
    return Encoders(path)


def cpython(codec: str, data: bytes) -> str | None:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return None


def pairs(first: Iterator[int] | range, second: range) -> Iterator[bytes]:
    for a in first:
        for b in second:
            yield bytes([a, b])


def test_every_character_survives_json(c: Encoders) -> None:
    escaped = c.call("hf_json_escape", EVERY_CHARACTER.encode())
    assert escaped is not None
    assert json.loads(b'"' + escaped + b'"') == EVERY_CHARACTER
    assert NOT_RAW.search(escaped.decode()) is None
    assert c.call("hf_json_escape_utf8", EVERY_CHARACTER.encode()) == escaped


def test_escapes_are_those_of_cpython_and_the_controls_besides(c: Encoders) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        characters = rng.choices(EVERY_CHARACTER[:0x3000], k=rng.randrange(300))
        text = "".join(rng.choices([*characters, '"', "\n", "a", " "], k=200))
        plain = json.dumps(text, ensure_ascii=False)[1:-1]
        want = NOT_RAW.sub(lambda m: f"\\u{ord(m[0]):04x}", plain)
        assert c.call("hf_json_escape", text.encode()) == want.encode()


def test_any_bytes_become_json_as_latin1(c: Encoders) -> None:
    rng = random.Random(2)
    for data in [bytes(range(256)), *(rng.randbytes(n) for n in range(300))]:
        escaped = c.call("hf_json_escape_latin1", data)
        assert escaped is not None
        assert json.loads(b'"' + escaped + b'"') == data.decode("latin-1")


def test_utf8_is_valid_where_cpython_says_so(c: Encoders) -> None:
    rng = random.Random(3)
    seen = {True: 0, False: 0}
    for round_ in range(20000):
        start = rng.choice([0x20, 0x400, 0x3040, 0x1F300])
        text = "".join(chr(start + rng.randrange(96)) for _ in range(rng.randrange(60)))
        data = bytearray(text.encode())
        if round_ % 3 and data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        want = cpython("utf-8", bytes(data)) is not None
        seen[want] += 1
        assert c.valid(bytes(data)) == want
        escaped = c.call("hf_json_escape_utf8", bytes(data))
        assert (escaped is not None) == want
    assert min(seen.values()) > 1000


def test_base64_is_that_of_cpython(c: Encoders) -> None:
    rng = random.Random(4)
    for n in [*range(300), 1000, 65537]:
        data = rng.randbytes(n)
        assert c.call("hf_base64_encode", data) == base64.b64encode(data)


def test_seconds_and_times_are_exact(c: Encoders) -> None:
    rng = random.Random(5)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    for _ in range(5000):
        us = rng.randrange(-(10**16), 2 * 10**17)
        seconds = c.number("hf_json_us_as_seconds", us)
        assert Decimal(seconds) == Decimal(us) / 1000000
        assert re.fullmatch(r"-?\d+\.(0|\d*[1-9])", seconds)
        time = epoch + timedelta(microseconds=us)
        want = time.replace(microsecond=0, tzinfo=None).isoformat()
        ms = time.microsecond // 1000
        assert c.number("hf_json_time", us) == f'"{want}.{ms:03d}Z"'


SINGLE = {
    "ibm866": "cp866",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "windows-874": "cp874",
    **{name: name for name in ["koi8-r", "koi8-u"]},
    **{f"windows-{n}": f"cp{n}" for n in range(1250, 1259)},
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in [*range(2, 9), 10, 13, 14, 15, 16]},
}
# Where browsers read something else than CPython.
OURS = {
    ("koi8-u", 0xAE): "\u045e",
    ("koi8-u", 0xBE): "\u040e",
    ("windows-1255", 0xCA): "\u05ba",
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_byte_charsets_are_those_of_cpython(c: Encoders, name: str) -> None:
    for byte in range(256):
        want = OURS.get((name, byte)) or cpython(SINGLE[name], bytes([byte]))
        if want is None and name.startswith("windows-") and byte < 0xA0:
            want = chr(byte)  # browsers map the holes there to controls
        assert c.decode(name, bytes([byte])) == want, hex(byte)


GBK = {0xA3A0: "\u3000", 0xA8BC: "\u1e3f"}
GBK |= dict(zip(range(0xA6D9, 0xA6E0), "︐︒︑︓︔︕︖", strict=True))
GBK |= {0xA6EC: "\ufe17", 0xA6ED: "\ufe18", 0xA6F3: "\ufe19"}
GBK |= {0xFE59: "\u9fb4", 0xFE61: "\u9fb5", 0xFE66: "\u9fb6", 0xFE67: "\u9fb7"}
GBK |= {0xFE6D: "\u9fb8", 0xFE7E: "\u9fb9", 0xFE90: "\u9fba", 0xFEA0: "\u9fbb"}
BIG5 = {0xA145: "\u2027", 0xA14E: "\ufe51", 0xA1C2: "\u00af", 0xA1E3: "\uff5e"}
BIG5 |= {0xA1F2: "\u2295", 0xA1F3: "\u2299", 0xA241: "\u2215", 0xA242: "\ufe68"}
BIG5 |= {0xA244: "\uffe5", 0xA246: "\uffe0", 0xA247: "\uffe1"}


@pytest.mark.parametrize(
    ("name", "codec", "first", "ours"),
    [
        ("gbk", "gb18030", range(0x81, 0x100), GBK),
        ("gb18030", "gb18030", range(0x81, 0x100), GBK),
        ("big5", "big5hkscs", range(0x80, 0x100), BIG5),
        ("shift_jis", "cp932", range(0x80, 0x100), {}),
        ("euc-kr", "cp949", range(0x80, 0x100), {}),
    ],
)
def test_two_bytes_are_read_as_by_cpython(
    c: Encoders, name: str, codec: str, first: range, ours: dict[int, str]
) -> None:
    for data in pairs(first, range(0x100)):
        want = ours.get(int.from_bytes(data, "big")) or cpython(codec, data)
        if want and re.search("[\uf8f0-\uf8f3]", want):
            want = None  # bytes A0 and FD to FF of Shift_JIS, which browsers refuse
        assert c.decode(name, data) == want, data.hex()


def test_euc_jp_is_jis_x_0208_as_microsoft_reads_it(c: Encoders) -> None:
    for row, cell in pairs(range(94), range(94)):
        lead = row // 2 + (0x81 if row < 62 else 0xC1)
        trail = cell + (0x9F if row % 2 else 0x40 if cell < 63 else 0x41)
        want = cpython("cp932", bytes([lead, trail]))
        assert c.decode("euc-jp", bytes([row + 0xA1, cell + 0xA1])) == want
        jis = b"\x1b$B" + bytes([row + 0x21, cell + 0x21]) + b"\x1b(B"
        assert c.decode("iso-2022-jp", jis) == want
        third = bytes([0x8F, row + 0xA1, cell + 0xA1])
        want = "\uff5e" if third == b"\x8f\xa2\xb7" else cpython("euc_jp", third)
        assert c.decode("euc-jp", third) == want


def test_four_bytes_of_gb18030_are_read_as_by_cpython(c: Encoders) -> None:
    pointers = [*range(39500), *range(188900, 189100), *range(1237500, 1237700)]
    for pointer in pointers:
        a, b = divmod(pointer, 12600)
        data = bytes([0x81 + a, 0x30 + b // 1260, 0x81 + b // 10 % 126, 0x30 + b % 10])
        want = "\ue7c7" if pointer == 7457 else cpython("gb18030", data)
        assert c.decode("gb18030", data) == want, pointer


@pytest.mark.parametrize(
    ("name", "codec", "sample"),
    [
        ("utf-16le", "utf-16-le", "naïve, Привет, 你好, 😀\0"),
        ("utf-16be", "utf-16-be", "naïve, Привет, 你好, 😀\0"),
        ("gbk", "gbk", "<p>中文网页。编码测试。</p>"),
        ("gb18030", "gb18030", "中文 😀 naïve ㄅㄆ"),
        ("big5", "big5", "<p>中文網頁。編碼測試。</p>"),
        ("shift_jis", "cp932", "日本語のページ ｶﾅ ∥①髙\\~"),
        ("euc-jp", "euc_jp", "日本語のページ ｶﾅ 丂"),
        ("iso-2022-jp", "iso2022_jp", "日本語 abc のページ\n次の行"),
        ("euc-kr", "cp949", "한국어 페이지 똠방각하"),
        ("windows-1251", "cp1251", "Съешь ещё этих булок"),
    ],
)
def test_text_that_cpython_encoded_comes_back(
    c: Encoders, name: str, codec: str, sample: str
) -> None:
    rng = random.Random(6)
    for _ in range(300):
        text = "".join(rng.choices(sample + " a<", k=rng.randrange(200)))
        data = text.encode(codec)
        assert c.decode(name, data) == text
