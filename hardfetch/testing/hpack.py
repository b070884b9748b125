"""HPACK (RFC 7541) as far as a test server needs it: decode all, encode literally."""

from __future__ import annotations

_LENGTHS = (
    "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6ca"
    "d67777777777777777777777878djde6f56565666577666567655677777fbeds"
    "kmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn"
    "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq"
    "u"
)
"""Bits of the Huffman code of each byte and of EOS, in base 36 (RFC 7541, appendix B).

The code is canonical, so its lengths are all of it.
"""

_STATIC = """
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate
"""
"""Appendix A: a name and its value, if any, a line."""


def _huffman() -> dict[tuple[int, int], int]:
    lengths = [int(digit, 36) for digit in _LENGTHS]
    codes: dict[tuple[int, int], int] = {}
    code = before = 0
    for symbol in sorted(range(257), key=lambda s: (lengths[s], s)):
        code <<= lengths[symbol] - before
        before = lengths[symbol]
        codes[before, code] = symbol
        code += 1
    return codes


_CODES = _huffman()
_TABLE = [
    (name, value)
    for name, _, value in (line.partition(" ") for line in _STATIC.split("\n")[1:-1])
]
TABLE_SIZE = 4096


def unhuffman(data: bytes) -> bytes:
    """Decodes a Huffman string; what follows its last symbol is padding."""
    out = bytearray()
    length = code = 0
    for byte in data:
        for bit in range(7, -1, -1):
            code = code << 1 | byte >> bit & 1
            length += 1
            symbol = _CODES.get((length, code))
            if symbol is not None:
                out.append(symbol & 0xFF)
                length = code = 0
    return bytes(out)


class Decoder:
    """Reads the header blocks of one connection, in their order."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []
        self.limit = TABLE_SIZE
        self._data = b""
        self._at = 0

    def decode(self, block: bytes) -> list[tuple[str, str]]:
        """The headers of one complete block. Raises ValueError for a broken one."""
        self._data, self._at = block, 0
        headers: list[tuple[str, str]] = []
        while self._at < len(block):
            first = block[self._at]
            if first & 0x80:
                headers.append(self._entry(self._int(7)))
            elif first & 0xE0 == 0x20:
                self.limit = self._int(5)
                self._evict()
            else:
                indexed = first & 0xC0 == 0x40
                number = self._int(6 if indexed else 4)
                name = self._entry(number)[0] if number else self._string()
                headers.append((name, self._string()))
                if indexed:
                    self.entries.insert(0, headers[-1])
                    self._evict()
        return headers

    def _evict(self) -> None:
        def size() -> int:
            return sum(len(name) + len(value) + 32 for name, value in self.entries)

        while self.entries and size() > self.limit:
            self.entries.pop()

    def _entry(self, number: int) -> tuple[str, str]:
        table = _TABLE if number <= len(_TABLE) else self.entries
        at = number - 1 if number <= len(_TABLE) else number - len(_TABLE) - 1
        if not 0 <= at < len(table):
            raise ValueError(f"no HPACK entry {number}")
        return table[at]

    def _byte(self) -> int:
        if self._at >= len(self._data):
            raise ValueError("short HPACK block")
        self._at += 1
        return self._data[self._at - 1]

    def _int(self, bits: int) -> int:
        top = (1 << bits) - 1
        value = self._byte() & top
        if value < top:
            return value
        for shift in range(0, 28, 7):
            byte = self._byte()
            value += (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
        raise ValueError("HPACK integer too large")

    def _string(self) -> str:
        if self._at >= len(self._data):
            raise ValueError("short HPACK block")
        packed = self._data[self._at] & 0x80
        size = self._int(7)
        if self._at + size > len(self._data):
            raise ValueError("short HPACK string")
        data = self._data[self._at : self._at + size]
        self._at += size
        return (unhuffman(data) if packed else data).decode("latin-1")


def encode(headers: list[tuple[str, str]]) -> bytes:
    """A header block of literals that neither end keeps in a table."""
    out = bytearray()
    for name, value in headers:
        out.append(0)
        for text in (name, value):
            data = text.encode("latin-1")
            out += _length(len(data)) + data
    return bytes(out)


def _length(size: int) -> bytes:
    if size < 127:
        return bytes([size])
    out = bytearray([127])
    size -= 127
    while size >= 128:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
