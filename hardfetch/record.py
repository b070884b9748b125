"""Results of single fetches: a record's data under requests-like names."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hardfetch import jsonio
from hardfetch._ffi import line_of
from hardfetch.errors import HTTPError, error_class

__all__ = ["Attempt", "Error", "Headers", "Redirect", "Result"]

# WHATWG's labels mean what browsers do; Python's codecs of the same name know less.
_CODECS = {
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "iso-8859-1": "windows-1252",
    "iso-8859-8-i": "iso-8859-8",
    "windows-874": "cp874",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-user-defined": "latin-1",
}
# Of a frame's form, as csrc/record.c has it.
_AS_BASE64 = 1  # nothing is known of the body
_TOLD = 1 << 63  # status and error are told there
_FAILED = 1 << 62
_STATUS_AT, _STATUS = 48, 0x3FFF
_INEXACT = frozenset({float, list, dict})  # what a large integer is read as, or inside
_BOMS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16le": codecs.BOM_UTF16_LE,
    "utf-16be": codecs.BOM_UTF16_BE,
}


@dataclass(frozen=True)
class Error:
    """Why a fetch brought no good answer; the lists are closed, see the contract."""

    type: str
    origin: str  # site, proxy or local: who is to blame
    phase: str
    message: str
    curl_code: int | None = None
    retryable: bool = False


@dataclass(frozen=True)
class Redirect:
    """One hop that was followed."""

    url: str
    status_code: int
    location: str


@dataclass(frozen=True)
class Attempt:
    """One attempt of a fetch; times in seconds."""

    n: int
    proxy: str | None
    status_code: int | None
    error: str | None  # a type
    elapsed: float
    wait: float  # back-off before it, and turns that its redirects waited for
    rejected: str | None = None  # what found its answer bad: retry_on_body, validate
    retry_denied: str | None = None  # of the last one: what stood against another


class Headers(Mapping[str, str]):
    """Response headers: names in any case, order and duplicates kept.

    As a mapping, the values of a repeated name are joined by ", "; `get_all` and
    `multi_items` keep them apart.
    """

    __slots__ = ("_by_name", "_pairs")

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._by_name: dict[str, list[str]] | None = None

    def _names(self) -> dict[str, list[str]]:
        """Return the values by name, which most results are never asked for."""
        if self._by_name is None:
            by_name: dict[str, list[str]] = {}
            for name, value in self._pairs:
                by_name.setdefault(name.lower(), []).append(value)
            self._by_name = by_name
        return self._by_name

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._names()[name.lower()])

    def __iter__(self) -> Iterator[str]:
        seen = set()
        for name, _ in self._pairs:
            if name.lower() not in seen:
                seen.add(name.lower())
                yield name

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._names()

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"

    def get_all(self, name: str) -> list[str]:
        """Return every value of name in order; an empty list when there is none."""
        return list(self._names().get(name.lower(), ()))

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all pairs in order, duplicates kept."""
        return list(self._pairs)


class Result:
    """What became of one input: an answer, or the error that took its place.

    Times are seconds. Nothing is parsed before it is asked for.
    """

    __slots__ = (
        "_content", "_data", "_form", "_headers", "_line", "_provisional", "_seq"
    )  # fmt: skip

    def __init__(
        self,
        line: bytes,
        content: bytes,
        seq: int | None = None,
        form: int = _AS_BASE64,
        provisional: bool = False,
    ) -> None:
        """Take a record's JSON line without body, and the body; its seq, if known."""
        self._line = line
        self._content = content
        self._seq = seq
        self._form = form
        self._provisional = provisional  # the engine waits for a word on it
        self._data: dict[str, Any] | None = None
        self._headers: Headers | None = None

    def __reduce__(self) -> tuple[type[Result], tuple[Any, ...]]:
        return type(self), (self._line, self._content, self._seq, self._form)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return self._line == other._line and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._line)

    def __repr__(self) -> str:
        what = self.error.type if self.error is not None else str(self.status_code)
        return f"<Result [{what}] seq={self.seq} {(self.url or '')[:100]}>"

    @property
    def line(self) -> bytes:
        """The record as its JSON line, without the body and the newline."""
        return self._line

    def ndjson(self) -> bytes:
        """Return the whole record, body included, as `Fetcher.run` would write it.

        That is one line with its end, under the fetcher's `fields` and `body`, which
        need not be open any more. Many times as fast as to make it in Python; with
        `NdjsonWriter.write_raw` it is written.
        """
        return line_of(self._line, self._content, self._form)

    @property
    def record(self) -> dict[str, Any]:
        """The record as parsed JSON, without its body. The same object each time."""
        if self._data is None:
            data = jsonio.loads_small(self._line)
            if data.get("meta") is not None or type(data.get("id")) in _INEXACT:
                data = jsonio.loads(self._line)  # only these may hold large integers
            self._data = data
        return self._data

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the record."""
        data: dict[str, Any] = jsonio.loads(self._line)
        return data

    # What was asked.

    @property
    def seq(self) -> int:
        """The input's ordinal, from 0."""
        if self._seq is None:
            self._seq = int(self.record["seq"])
        return self._seq

    @property
    def id(self) -> Any:
        """The caller's id, or None."""
        return self.record.get("id")

    @property
    def meta(self) -> Any:
        """The caller's JSON as it was, or None."""
        return self.record.get("meta")

    @property
    def input(self) -> str | None:
        """The URL as it was given; None where it is not UTF-8."""
        return self.record.get("input")

    @property
    def request_url(self) -> str | None:
        """The URL requested after normalisation; None for an invalid request."""
        return self.record.get("url")

    @property
    def method(self) -> str | None:
        """The method of the request."""
        return self.record.get("method")

    # What came.

    @property
    def url(self) -> str | None:
        """The URL that answered, as in requests; else the one requested."""
        return self.record.get("final_url") or self.record.get("url")

    @property
    def final_url(self) -> str | None:
        """The URL after redirects."""
        return self.record.get("final_url")

    @property
    def status_code(self) -> int | None:
        """The HTTP status; None when no final status line came."""
        if self._form < _TOLD:
            status: int | None = self.record.get("status_code")
            return status
        return self._form >> _STATUS_AT & _STATUS or None

    @property
    def ok(self) -> bool:
        """True for an answer without error and with a status below 400."""
        status = self.status_code
        return self.error is None and status is not None and status < 400

    @property
    def http_version(self) -> str | None:
        """"1.0", "1.1", "2" or "3"."""  # fmt: skip
        return self.record.get("http_version")

    @property
    def headers(self) -> Headers:
        """The headers of the final response."""
        if self._headers is None:
            pairs = self.record.get("headers") or []
            self._headers = Headers(list(map(tuple, pairs)))
        return self._headers

    @property
    def content(self) -> bytes:
        """The body after content decoding; what came of it when `truncated`."""
        return self._content

    @property
    def encoding(self) -> str | None:
        """The charset that the body is in, as found by the core; None for no text."""
        return self.record.get("charset")

    charset = encoding

    @property
    def text(self) -> str:
        """The body as text. Bytes that the charset does not know become U+FFFD."""
        name = (self.encoding or "utf-8").lower()
        content = self._content
        bom = _BOMS.get(name, b"")
        if bom and content.startswith(bom):
            content = content[len(bom) :]
        try:
            return content.decode(_CODECS.get(name, name), "replace")
        except LookupError:
            return content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body parsed as JSON.

        Raises ValueError for anything else, and the FetchError of a fetch that failed
        without a body.
        """
        content = self._content
        if not content:
            self.raise_for_error()
        if content.startswith(codecs.BOM_UTF8):
            content = content[3:]
        elif (self.encoding or "").startswith("utf-16"):
            return jsonio.loads(self.text)
        return jsonio.loads(content)

    @property
    def truncated(self) -> str | None:
        """Why the body is cut: size, time, disconnect, framing, decode; or None."""
        return self.record.get("truncated")

    @property
    def redirects(self) -> list[Redirect]:
        """The hops that were followed, first to last."""
        return [Redirect(**hop) for hop in self.record.get("redirects") or []]

    history = redirects

    # How it went.

    @property
    def error(self) -> Error | None:
        """The error; None for any HTTP answer, 404 included."""
        if _TOLD <= self._form < _TOLD + _FAILED:
            return None
        error = self.record.get("error")
        return None if error is None else Error(**error)

    @property
    def elapsed(self) -> float:
        """Seconds from acceptance to the result, all attempts and waits."""
        return float(self.record["elapsed"])

    @property
    def timing(self) -> dict[str, float | None]:
        """Seconds: queue; of the last attempt dns, connect, tls, first_byte, total."""
        timing: dict[str, float | None] = self.record.get("timing") or {}
        return timing

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt, first to last."""
        return [Attempt(**attempt) for attempt in self.record.get("attempts") or []]

    @property
    def remote_ip(self) -> str | None:
        """The address of the peer, a proxy's where one was used."""
        return self.record.get("remote_ip")

    primary_ip = remote_ip

    @property
    def remote_port(self) -> int | None:
        """The port of the peer."""
        return self.record.get("remote_port")

    @property
    def proxy(self) -> str | None:
        """The proxy that carried the last attempt, without credentials."""
        return self.record.get("proxy")

    def raise_for_error(self) -> None:
        """Raise the FetchError of this result's error; return when it has none."""
        error = self.error
        if error is not None:
            target = self.url or self.input or ""
            raise error_class(error.type)(
                f"{error.type}: {error.message} ({target})", error, self
            )

    def raise_for_status(self) -> None:
        """Raise the FetchError of an error, or HTTPError for a status from 400 on."""
        self.raise_for_error()
        status = self.status_code
        if status is not None and status >= 400:
            raise HTTPError(f"HTTP {status} for {self.url}", None, self)
