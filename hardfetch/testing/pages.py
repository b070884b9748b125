"""The normal pages of the fault site: sizes, statuses, redirects, charsets, echoes.

`answer` is the whole of it: a request in, a response or a script out.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hardfetch.testing import content
from hardfetch.testing.http1 import MAX_BODY, Request, Response, in_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hardfetch.testing.model import Script
    from hardfetch.testing.peer import Peer

SIZES = {"1k": 1024, "30k": 30 * 1024, "200k": 200 * 1024}

INDEX = """\
/1k /30k /200k                  HTML of 1024, 30720 and 204800 bytes; ?gzip packs it
/bytes/N                        N bytes of noise
/status/N                       an answer with that status
/redirect/N                     a chain of N redirects that ends at /1k
/redirect-to?url=U&status=S     one redirect; /loop: a redirect to itself
/charset/NAME?by=header         the encoding told by header, meta, bom or none
/gzip /deflate /deflate-raw /br /zstd      200,000 bytes of HTML, packed
/chunked                        the same unpacked, in chunks; ?size=N bytes each
/headers /echo /cookie /whoami /stats      JSON: what the server saw
/cookie/set?NAME=VALUE          sets cookies; &domain=D
/slow?s=0.2                     a page after s seconds
/drip?bytes=10&every=0.1        a body, byte by byte
/retry-after?value=1&status=429&times=1&key=K   refused so often, then a page
/rate?limit=10&key=K            429 beyond so many requests a second
/auth?user=u&password=p         401 without these credentials
/fault/NAME                     a fault that begins after the request
"""


def as_json(value: Any, status: int = 200) -> Response:
    """A JSON answer."""
    body = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    return Response(body, status, content_type="application/json")


def fast_pages() -> dict[bytes, bytes]:
    """The prebuilt answers, by path."""
    return {
        f"/{name}".encode(): Response(content.page(size)).render()
        for name, size in SIZES.items()
    }


class Pages:
    """All pages of one site."""

    def __init__(self, faults: Mapping[str, Script], stats: Callable[[], Any]) -> None:
        self.faults = faults
        self.stats = stats
        self.buckets: dict[str, tuple[float, float]] = {}
        """Per key of /rate: tokens left and when that was true (monotonic seconds)."""

    def answer(self, request: Request) -> Response | Script:
        """Finds the page for a request; an unknown one is a 404, a bad one a 400."""
        words = [unquote(word) for word in request.path.split("/")[1:]]
        page = _PAGES.get(words[0])
        if page is None:
            return Response(b"no such page\n", 404, content_type="text/plain")
        try:
            return page(self, request, words[1:])
        except (ValueError, KeyError, IndexError) as error:
            text = f"can't make that page: {error}\n"
            return Response(text.encode(), 400, content_type="text/plain")


def _sized(_: Pages, request: Request, __: list[str]) -> Response:
    body = content.page(SIZES[request.path[1:]])
    if "gzip" in request.query:
        packed = gzip.compress(body, 6, mtime=0)
        return Response(packed, headers=(("Content-Encoding", "gzip"),))
    return Response(body)


def _index(site: Pages, _: Request, __: list[str]) -> Response:
    names = "".join(f"/fault/{name}\n" for name in sorted(site.faults))
    return Response((INDEX + "\n" + names).encode(), content_type="text/plain")


def _bytes(_: Pages, __: Request, words: list[str]) -> Response:
    size = int(words[0])
    if not 0 <= size <= MAX_BODY:
        raise ValueError(f"{size} bytes")
    return Response(content.noise(size), content_type="application/octet-stream")


def _status(_: Pages, __: Request, words: list[str]) -> Response:
    status = int(words[0])
    if not 200 <= status <= 999:
        raise ValueError(f"status {status}")
    return Response(f"<h1>{status}</h1>\n".encode(), status)


def _redirect(_: Pages, request: Request, words: list[str]) -> Response:
    left = int(words[0])
    target = f"/redirect/{left - 1}" if left > 1 else "/1k"
    status = int(request.query.get("status", "302"))
    return Response(b"elsewhere\n", status, (("Location", target),))


def _redirect_to(_: Pages, request: Request, __: list[str]) -> Response:
    query = request.query
    status = int(query.get("status", "302"))
    # What the query decoded to goes out as bytes, so that odd Locations can be made.
    raw = query["url"].encode("utf-8", "surrogateescape").decode("latin-1")
    if "\r" in raw or "\n" in raw:
        raise ValueError("line break in url")
    return Response(b"elsewhere\n", status, (("Location", raw),))


def _loop(_: Pages, __: Request, ___: list[str]) -> Response:
    return Response(b"again\n", 302, (("Location", "/loop"),))


def _charset(_: Pages, request: Request, words: list[str]) -> Response:
    by = request.query.get("by", "header")
    if by not in ("header", "meta", "bom", "none"):
        raise ValueError(f"by={by}")
    body, _text = content.charset_page(words[0], by)
    kind = f"text/html; charset={words[0]}" if by == "header" else "text/html"
    return Response(body, content_type=kind)


def _packed(_: Pages, request: Request, __: list[str]) -> Response:
    name = request.path[1:]
    if name == "deflate-raw":
        body = content.raw_deflate(content.long_text())
        name = "deflate"
    else:
        body = content.packed_text(name)
    return Response(body, headers=(("Content-Encoding", name),))


def _chunked(_: Pages, request: Request, __: list[str]) -> Response | Script:
    size = int(request.query.get("size", "4096"))
    if size < 1:
        raise ValueError(f"size {size}")
    if size == 4096:
        return Response(content.long_text(), chunked=True)
    head = Response(b"", chunked=True).render(head_only=True)
    return lambda peer: peer.send(head + in_chunks(content.long_text(), size))


def _headers(_: Pages, request: Request, __: list[str]) -> Response:
    return as_json({"headers": request.headers})


def _echo(_: Pages, request: Request, __: list[str]) -> Response:
    return as_json(
        {
            "method": request.method,
            "target": request.target,
            "version": request.version,
            "headers": request.headers,
            "body_base64": base64.b64encode(request.body).decode(),
            "body": request.body.decode("utf-8", "replace"),
        }
    )


def _cookie(_: Pages, request: Request, words: list[str]) -> Response:
    if words[:1] == ["set"]:
        query = request.query
        domain = query.pop("domain", "")
        tail = "; Path=/" + (f"; Domain={domain}" if domain else "")
        pairs = tuple(
            ("Set-Cookie", f"{name}={value}{tail}") for name, value in query.items()
        )
        return Response(b"set\n", headers=pairs)
    cookies = [value for name, value in request.headers if name.lower() == "cookie"]
    return as_json({"cookie": "; ".join(cookies)})


def _whoami(_: Pages, request: Request, __: list[str]) -> Response:
    peer = request.peer
    host, port = peer.transport.get_extra_info("peername")[:2]
    user, number = peer.ledger.exits.get(port, (None, None))
    tls = peer.tls
    return as_json(
        {
            "connection": peer.id,
            "request": request.ordinal,
            "client": f"{host}:{port}",
            "tls": tls.version() if tls else None,
            "resumed": bool(tls.session_reused) if tls else None,
            "proxy_user": user,
            "proxy_connection": number,
            "user_agent": request.header("user-agent"),
        }
    )


def _stats(site: Pages, _: Request, __: list[str]) -> Response:
    return as_json(site.stats())


def _slow(_: Pages, request: Request, __: list[str]) -> Script:
    seconds = float(request.query.get("s", "0.2"))

    async def script(peer: Peer) -> None:
        await asyncio.sleep(seconds)
        await peer.send(Response(content.page(1024)).render())

    return script


def _drip(_: Pages, request: Request, __: list[str]) -> Script:
    size = int(request.query.get("bytes", "10"))
    every = float(request.query.get("every", "0.1"))
    body = content.noise(size)
    answer = Response(body, content_type="application/octet-stream")

    async def script(peer: Peer) -> None:
        await peer.send(answer.render(head_only=True))
        await peer.trickle(body, every)

    return script


def _retry_after(_: Pages, request: Request, __: list[str]) -> Response:
    query = request.query
    status = int(query.get("status", "429"))
    times = int(query.get("times", "1"))
    key = f"retry-after {query.get('key', request.target)}"
    tallies = request.peer.ledger.tallies
    tallies[key] += 1
    if tallies[key] > times:
        return Response(content.page(1024))
    skew = float(query.get("skew", "0"))
    now = time.time() + skew
    headers = [("Date", formatdate(now, usegmt=True))]
    if "date" in query:
        in_seconds = float(query["date"])
        headers.append(("Retry-After", formatdate(now + in_seconds, usegmt=True)))
    elif "value" in query:
        headers += [("Retry-After", value) for value in query["value"].split("|")]
    return Response(b"later\n", status, tuple(headers))


def _rate(site: Pages, request: Request, __: list[str]) -> Response:
    limit = float(request.query.get("limit", "10"))
    key = request.query.get("key", "")
    now = time.monotonic()
    tokens, since = site.buckets.get(key, (limit, now))
    tokens = min(limit, tokens + (now - since) * limit)
    good = tokens >= 1
    site.buckets[key] = (tokens - 1 if good else tokens, now)
    return Response(content.page(1024)) if good else Response(b"too many\n", 429)


def _auth(_: Pages, request: Request, __: list[str]) -> Response:
    query = request.query
    pair = f"{query.get('user', 'u')}:{query.get('password', 'p')}".encode()
    if request.header("authorization") == "Basic " + base64.b64encode(pair).decode():
        return Response(content.page(1024))
    asks = (("WWW-Authenticate", 'Basic realm="faultsite"'),)
    return Response(b"who are you?\n", 401, asks)


def _robots(_: Pages, __: Request, ___: list[str]) -> Response:
    text = b"User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\n"
    return Response(text, content_type="text/plain")


def _fault(site: Pages, _: Request, words: list[str]) -> Script:
    fault = site.faults[words[0]]

    async def script(peer: Peer) -> None:
        await fault(peer)
        peer.transport.close()

    return script


_PAGES: dict[str, Callable[[Pages, Request, list[str]], Response | Script]] = {
    "": _index,
    "1k": _sized,
    "30k": _sized,
    "200k": _sized,
    "bytes": _bytes,
    "status": _status,
    "redirect": _redirect,
    "redirect-to": _redirect_to,
    "loop": _loop,
    "charset": _charset,
    "gzip": _packed,
    "deflate": _packed,
    "deflate-raw": _packed,
    "br": _packed,
    "zstd": _packed,
    "chunked": _chunked,
    "headers": _headers,
    "echo": _echo,
    "cookie": _cookie,
    "whoami": _whoami,
    "stats": _stats,
    "slow": _slow,
    "drip": _drip,
    "retry-after": _retry_after,
    "rate": _rate,
    "auth": _auth,
    "robots.txt": _robots,
    "private": lambda *_: Response(content.page(1024)),
    "fault": _fault,
}
