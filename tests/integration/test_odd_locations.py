"""Odd Locations: where they lead, and which lead nowhere."""

from __future__ import annotations

import strict
import truth
from player import Player

from hardfetch.testing import FaultSite
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer

# Where each Location leads; {} is host:port of the server, and of the page /d/e?q.
LEADS: dict[bytes, bytes] = {
    b"/a b": b"/a%20b", b"x y": b"/d/x%20y", b"?x": b"/d/e?x", b".": b"/d/",
    b"..": b"/", b"../../../x": b"/x", b"./y/../z": b"/d/z", b"/%2e%2E/x": b"/x",
    b"/a/%2e/b": b"/a/b", b"\\x": b"/x", b"\\\\{}\\x": b"/x", b"/\\{}/x": b"/x",
    b"//{}": b"/", b"///{}/x": b"/x", b"////{}/x": b"/x", b"http:x": b"/d/x",
    b"http:/x": b"/x", b"hTtP:///{}/x": b"/x", b"http:\\\\{}\\x\\y?a\\b": b"/x/y?a\\b",
    b"http://{}?x": b"/?x", b"http://{}#f": b"/", b"/a#b#c": b"/a",
    b"/a?b?c#d?e": b"/a?b?c", b"/\xc3\xa9": b"/%C3%A9", b"/\xe9": b"/%E9",
    b"/%zz%": b"/%zz%", b"/a%00b": b"/a%00b", b"/a\tb": b"/ab", b"/a\x01b": b"/a%01b",
    b'/<>"`': b"/%3C%3E%22%60", b"/?'\"<>": b"/?%27%22%3C%3E",
    b"/a//b///c": b"/a//b///c", b"http://u:p@{}/x": b"/x", b"http://@{}/x": b"/x",
    b"/\xf0\x9f\x98\x80": b"/%F0%9F%98%80", b"/x\x7f": b"/x%7F", b"/a, /b": b"/a,%20/b",
    b"127.0.0.1:1/x": b"/d/127.0.0.1:1/x", b"www.test/x": b"/d/www.test/x",
    b":80/x": b"/d/:80/x", b"'/q'": b"/d/'/q'", b"/" + b"a" * 9000: b"/" + b"a" * 9000,
}  # fmt: skip
NOWHERE: tuple[bytes, ...] = (
    b"", b"   ", b"//", b"http://", b"https:", b"http://127.0.0.1:0/",
    b"http://127.0.0.1:65536/", b"http://127.0.0.1:+80/", b"http://127.0.0.1: 80/",
    b"http://127.0.0.1:a/", b"http://1.2.3.4.5/", b"http://256.0.0.1/",
    b"http://4294967296/", b"http://1.2.3.08/", b"http://a.0x/", b"http://a b/",
    b"http://a%00b/", b"http://a..b/", b"http://" + b"a" * 64 + b".test/",
    b"http://[::1/", b"http://[1::2::3]/", b"http://::1/", b"http://\xff/",
    b"ftp://127.0.0.1/", b"file:///etc/passwd", b"javascript:alert(1)",
    b"data:text/html,x", b"about:blank", b"mailto:a@b.test", b"ws://127.0.0.1/",
    b"view-source:http://127.0.0.1/",
)  # fmt: skip


def leads_on(locations: list[bytes]) -> Script:
    """Answers /d/e?N with the N-th Location, and anything else with what was asked."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.read_head()).split(b" ")[1]
            status, line = b"200 OK", b""
            path, _, number = target.partition(b"?")
            if path == b"/d/e" and number.isdigit():
                status = b"302 Found"
                line = b"Location: " + locations[int(number)] + b"\r\n"
            await peer.send(
                b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s"
                % (status, line, len(target), target)
            )

    return script


def test_odd_locations_lead_where_browsers_go(site: FaultSite) -> None:
    locations: list[bytes] = []
    with Player() as player:
        base = player.serve(leads_on(locations))
        host = base.removeprefix("http://").encode()
        locations += [location.replace(b"{}", host) for location in LEADS]
        records = truth.fetch(
            site, [{"url": f"{base}/d/e?{n}"} for n in range(len(locations))],
            body="base64", timeout=20, breaker=0,
        )  # fmt: skip
    for record, location, target in zip(
        records, locations, LEADS.values(), strict=True
    ):
        assert record["error"] is None, (location, record["error"])
        assert strict.body(record) == target, location
        (hop,) = record["redirects"]
        try:
            shown = location.decode()
        except UnicodeDecodeError:
            shown = location.decode("latin-1")
        # As it came, but for a password.
        assert hop["location"] == shown.strip(" \t").replace("//u:p@", "//u:***@")


def test_what_leads_nowhere_keeps_the_redirect(site: FaultSite) -> None:
    with Player() as player:
        base = player.serve(leads_on(list(NOWHERE)))
        records = truth.fetch(
            site, [{"url": f"{base}/d/e?{n}"} for n in range(len(NOWHERE))],
            body="base64", timeout=20, breaker=0,
        )  # fmt: skip
    for number, record in enumerate(records):
        truth.expect(
            record, "bad_redirect", origin="site", phase="headers", status=302,
            body=b"/d/e?%d" % number, redirects=[],
        )  # fmt: skip
        assert not record["error"]["retryable"]
