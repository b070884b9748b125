"""`robots="obey"`: inputs wait in the engine until their host's robots.txt is known.

An input whose rules are not known yet is submitted all the same, marked to be held: it
keeps its place, holds up nobody, and a verdict lets it go or ends it as
`robots_denied`. So does a redirect, before it is followed. The robots.txt is fetched by
an engine of its own with the same options, proxies and limits, which follows redirects
as they come.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, urlsplit

from hardfetch.errors import ClosedError, HardfetchError
from hardfetch.outcome import Verdict
from hardfetch.record import Result
from hardfetch.robots import MAX_BODY, RobotsCache, RobotsRules, robots_origin

if TYPE_CHECKING:
    from hardfetch._ffi import Engine
    from hardfetch.client import Answer, Client
    from hardfetch.options import Options
    from hardfetch.request import Packer
    from hardfetch.robots import RobotsAnswer

__all__ = ["RobotsGate", "make_gate"]

_TAG_URL, _TAG_INVALID, _TAG_HOLD = 1, 19, 20  # HF_TAG_… of csrc/api.h
_LENGTH = struct.Struct("<I")
_ITEM = struct.Struct("<BI")
_HOLD = _ITEM.pack(_TAG_HOLD, 0)
_AGENT = re.compile(r"[A-Za-z_-]+")
_ASCII = "".join(map(chr, range(33, 127)))
_TOLD = 512  # hosts whose delay the engine surely remembers
_REDIRECTS = frozenset({"too_many_redirects", "redirect_loop", "bad_redirect"})


def make_gate(engine: Engine, options: Options, packer: Packer) -> RobotsGate | None:
    """Return the gate for an engine, None where robots.txt is ignored."""
    return RobotsGate(engine, options, packer) if options.robots == "obey" else None


class RobotsGate:
    """What stands between inputs and one engine. Any thread."""

    def __init__(self, engine: Engine, options: Options, packer: Packer) -> None:
        found = _AGENT.match(options.user_agent)
        self._engine = engine
        self._options = options
        self._packer = packer
        self._cache = RobotsCache(found[0] if found else "hardfetch")
        # protego missing, or too old, is told now and not by the first host.
        RobotsRules(200, b"", "hardfetch")
        self._client: Client | None = None
        self._lock = threading.RLock()
        self._waiting: dict[str, list[tuple[int, str]]] = {}  # by origin
        self._told: OrderedDict[str, None] = OrderedDict()
        self._closed = False

    def hold(self, frame: bytes) -> tuple[bytes, str]:
        """Return the frame to submit, and the URL to `settle` where it is held."""
        url = _url_of(frame)
        try:
            with self._lock:
                known = self._cache.known(url, time.monotonic()) if url else None
                if url and known is None:
                    robots_origin(url)
                if known is not None and known.answer == "allow":
                    self._tell_delay(url, known.crawl_delay)
                    url = ""
        except ValueError:  # the engine says what is wrong with it
            url = ""
        if not url:
            return frame, ""
        items = frame[_LENGTH.size :] + _HOLD
        return _LENGTH.pack(len(items)) + items, url

    def settle(self, seq: int, url: str) -> None:
        """Let a held request go, end it, or have its robots.txt fetched."""
        with self._lock:
            answer = self._cache.check(url, time.monotonic())
            if answer.answer in ("allow", "deny"):
                self._tell_delay(url, answer.crawl_delay)
                self._send([_verdict(seq, answer)])
                return
            self._waiting.setdefault(robots_origin(url), []).append((seq, url))
        if answer.answer == "fetch":
            self._fetch(url, answer.url)

    def close(self) -> None:
        """End the fetches of robots.txt."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # The fetching

    def _fetch(self, url: str, robots: str) -> None:
        def done(answer: Answer) -> None:
            self._arrived(url, answer)

        try:
            client = self._get_client()
            client.submit(self._packer.plain(robots), done)
        except HardfetchError as exc:
            done(exc)

    def _get_client(self) -> Client:
        from hardfetch.client import Client  # which has a gate of its own

        with self._lock:
            if self._closed:
                raise ClosedError("the run is over")
            if self._client is None:
                options = self._options.replace(
                    robots="ignore",
                    method="GET",
                    data=None,
                    deadline=None,
                    retry_on_body=(),
                    validate=None,
                    max_body=MAX_BODY,
                    follow=True,
                )
                self._client = Client(options)
            return self._client

    def _arrived(self, url: str, answer: Answer) -> None:
        status, body = 0, b""
        if isinstance(answer, Result):
            error = answer.error
            if error is None or error.type in _REDIRECTS:
                status, body = answer.status_code or 0, answer.content
        now = time.monotonic()
        with self._lock:
            self._cache.store(url, status, body, now)
            verdicts = []
            for seq, one in self._waiting.pop(robots_origin(url), ()):
                known = self._cache.known(one, now)
                if known is not None:
                    self._tell_delay(one, known.crawl_delay)
                    verdicts.append(_verdict(seq, known))
            self._send(verdicts)

    def _send(self, verdicts: list[Verdict]) -> None:
        with suppress(HardfetchError):  # it has ended meanwhile, and they with it
            self._engine.verdicts(verdicts)

    def _tell_delay(self, url: str, delay: float) -> None:
        """Tell the engine, which forgets hosts that it has not seen for long."""
        if not delay:
            return
        host = _host_of(url)
        if host not in self._told:
            with suppress(HardfetchError):
                self._engine.host_delay(host, delay)
        self._told[host] = None
        self._told.move_to_end(host)
        if len(self._told) > _TOLD:
            self._told.popitem(last=False)


def _verdict(seq: int, answer: RobotsAnswer) -> Verdict:
    if answer.answer == "allow":
        return Verdict(seq, retry=True, silent=True)
    return Verdict(seq, retry=False, error="robots_denied")


def _url_of(frame: bytes) -> str:
    """Return the URL of a packed request, "" when it is invalid."""
    url, at = b"", _LENGTH.size
    while at < len(frame):
        tag, size = _ITEM.unpack_from(frame, at)
        at += _ITEM.size
        if tag == _TAG_INVALID:
            return ""
        if tag == _TAG_URL:
            url = frame[at : at + size]
        at += size
    try:
        return url.decode()
    except UnicodeDecodeError:
        return quote_from_bytes(url, safe=_ASCII)


def _host_of(url: str) -> str:
    """Return host:port as the engine has it."""
    parts = urlsplit(robots_origin(url))
    host = parts.hostname or ""
    with suppress(UnicodeError):
        host = host.encode("idna").decode("ascii")
    return f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"
