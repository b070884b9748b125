"""A proxy that refuses CONNECT and says when to come back."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path

import pytest
from scripted import Reply, Scripted

from hardfetch import Fetcher
from hardfetch.retry import RetryPolicy
from hardfetch.testing import FaultSite

TARGET = "https://page.test/"  # which nobody reaches


def busy(*values: str, status: int = 503, date: str = "") -> Reply:
    headers = [("Retry-After", value) for value in values]
    return Reply(status, (*headers, *([("Date", date)] if date else [])))


@pytest.mark.parametrize("status", [429, 503])
def test_it_rests_and_the_other_serves(
    site: FaultSite, tmp_path: Path, status: int
) -> None:
    good = site.fault("proxy-connect").proxy
    assert good is not None
    with Scripted(lambda _: busy("60", status=status)) as resting, Fetcher(
        proxies=[resting.url, good], cacert=str(site.cafile), max_concurrency=1
    ) as fetch:  # fmt: skip
        summary = fetch.run([site.https + "/1k"] * 40, tmp_path / "out")
        (line,) = (p for p in summary.policy["proxies"] if p["proxy"] == resting.url)
        assert 1 <= len(resting.seen) <= 4  # until policy has heard of it
    assert summary.statuses == {"2xx": 40}
    assert summary.policy["gates"] == 0
    assert (line["state"], line["ejections"]) == ("benched", 0)


@pytest.mark.parametrize("options", ["proxy", "proxies"])
def test_a_lone_one_is_given_its_time(options: str) -> None:
    with Scripted(lambda _: busy("1")) as proxy, Fetcher(
        retry=RetryPolicy(1, exit_retries=0), **{options: proxy.url}
    ) as fetch:  # fmt: skip
        found = fetch.fetch(TARGET)
        one, other = proxy.times()
    assert [a.error for a in found.attempts] == ["proxy_refused"] * 2
    assert other - one >= 0.99
    assert found.attempts[1].wait == pytest.approx(1.0, abs=0.01)
    assert "Retry-After" not in str(found.record)


@pytest.mark.parametrize(
    ("values", "date", "least", "most"),
    [
        ((), "", 0.0, 0.5),
        (("soon",), "", 0.0, 0.5),
        (("-1",), "", 0.0, 0.5),
        (("x" * 5000,), "", 0.0, 0.5),
        (("9999999999",), "", 1.5, 1.5),  # the cap
        (("date",), "now", 0.0, 1.5),
        (("date",), "", 0.0, 1.5),
    ],
)
def test_times_are_read_as_a_sites_are(
    values: tuple[str, ...], date: str, least: float, most: float
) -> None:
    now = time.time()
    given = [formatdate(now + 9, usegmt=True) if v == "date" else v for v in values]
    told = formatdate(now + 8, usegmt=True) if date else ""  # a clock that is ahead
    reply = busy(*given, date=told)
    with Scripted(lambda _: reply) as proxy, Fetcher(
        retry=RetryPolicy(1, exit_retries=0, retry_after_cap=1.5), proxy=proxy.url
    ) as fetch:  # fmt: skip
        found = fetch.fetch(TARGET)
    assert [a.error for a in found.attempts] == ["proxy_refused"] * 2
    wait = found.attempts[1].wait
    assert wait is not None
    assert least <= wait <= most


def test_a_good_tunnel_after_a_refusal_has_forgotten_it(site: FaultSite) -> None:
    """The site's own 503 behind it has no Retry-After, whatever the proxy said."""
    good = site.fault("proxy-connect").proxy
    assert good is not None
    with Scripted(lambda _: busy("60")) as resting, Fetcher(
        proxies=[resting.url, f"{good} tier=1"], cacert=str(site.cafile), retries=1
    ) as fetch:  # fmt: skip
        began = time.monotonic()
        found = fetch.fetch(site.https + "/status/500")
        took = time.monotonic() - began
    assert [a.error for a in found.attempts][:1] == ["proxy_refused"]
    assert {a.status_code for a in found.attempts[1:]} == {500}
    assert took < 30
