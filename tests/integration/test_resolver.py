"""Names: whom is asked, what is honoured, and what a lost answer costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import truth

from hardfetch import Fetcher
from hardfetch.testing import FaultSite, content

PAGE = content.page(1024)
D = 1.5


def ask(site: FaultSite, name: str, **options: Any) -> truth.Record:
    fault = site.fault(f"dns-{name}")
    (record,) = truth.fetch(
        site, [{"url": fault.url}], dns_server=fault.dns_server, timeout=D,
        body="base64", **options,
    )  # fmt: skip
    return record


@pytest.mark.parametrize("name", ["ok", "no-https", "lost-aaaa"])
@pytest.mark.parametrize("profile", [None, "chrome", "firefox"])
def test_a_name_server_that_answers_for_addresses_costs_no_time(
    site: FaultSite, name: str, profile: str | None
) -> None:
    record = ask(site, name, impersonate=profile)
    truth.expect(record, status=200, body=PAGE, remote_ip="127.0.0.1")
    assert record["timing"]["dns"] < 0.9
    assert site.hits(f"dns-{name}") > 0


@pytest.mark.parametrize(
    "name", ["servfail", "nxdomain", "refused", "empty", "silent", "garbage"]
)
def test_one_that_does_not_is_the_sites(site: FaultSite, name: str) -> None:
    began = time.monotonic()
    record = ask(site, name, connect_timeout=0.8)
    kinds: tuple[str, ...] = ("dns_error", "dns_timeout")
    if name in ("servfail", "nxdomain", "empty"):
        kinds = ("dns_error",)
    if name == "silent":
        kinds = ("dns_timeout",)
    truth.expect(record, kinds, origin="site", phase="dns", remote_ip=None)
    assert time.monotonic() - began < 5
    assert record["timing"]["dns"] is None
    assert record["timing"]["connect"] is None


def test_many_names_at_once_with_https_records_lost(site: FaultSite) -> None:
    """A browser's profile would ask for records of type 65 and wait 2 s for each."""
    fault = site.fault("dns-no-https")
    port = site.https.rpartition(":")[2]
    urls = [{"url": f"https://host{n}.test:{port}/1k"} for n in range(50)]
    records = truth.fetch(
        site, urls, dns_server=fault.dns_server, impersonate="chrome", body="none",
        insecure=True,
    )  # fmt: skip
    assert {record["status_code"] for record in records} == {200}
    assert max(r["elapsed"] - r["timing"]["queue"] for r in records) < 1.0


def test_a_proxys_name_belongs_to_the_proxy(site: FaultSite) -> None:
    fault = site.fault("dns-nxdomain")
    given = {"url": site.url("/1k"), "proxy": "http://proxy-of-nobody.test:1"}
    (record,) = truth.fetch(site, [given], dns_server=fault.dns_server)
    truth.expect(record, "dns_error", origin="proxy", phase="dns")
    socks = {"url": "http://missing.invalid/", "proxy": site.fault("socks5h").proxy}
    (record,) = truth.fetch(site, [socks])
    truth.expect(record, "proxy_refused", origin="site", phase="proxy")


def test_addresses_can_be_given(site: FaultSite) -> None:
    port = site.port
    given = [
        {"url": f"http://a.given.test:{port}/1k"},
        {"url": f"http://b.given.test:{port}/1k"},
    ]
    resolve = [f"a.given.test:{port}:127.0.0.1", f"b.given.test:{port}:[::1],127.0.0.1"]
    for record in truth.fetch(site, given, resolve=resolve, body="base64"):
        truth.expect(record, status=200, body=PAGE, remote_ip="127.0.0.1")


def test_the_family_can_be_chosen(site: FaultSite) -> None:
    fault = site.fault("dns-ok")
    with FaultSite("::1") as six:
        names = {"url": f"http://v6.name.test:{six.port}/1k"}
        options = {"dns_server": fault.dns_server, "body": "base64"}
        (record,) = truth.fetch(six, [names], ipv6=True, **options)
        truth.expect(record, status=200, body=PAGE, remote_ip="::1")
        (record,) = truth.fetch(six, [names], **options)
        truth.expect(record, status=200, body=PAGE, remote_ip="::1")
    both = {"url": f"http://v6.name.test:{site.port}/1k"}
    (record,) = truth.fetch(site, [both], ipv4=True, **options)
    truth.expect(record, status=200, body=PAGE, remote_ip="127.0.0.1")
    # Nobody listens on ::1 there: the other family is tried.
    (record,) = truth.fetch(site, [both], **options)
    truth.expect(record, status=200, body=PAGE, remote_ip="127.0.0.1")


def hosts_name() -> str | None:
    """A name that the hosts file gives a loopback address, but for localhost."""
    for line in Path("/etc/hosts").read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words and words[0].startswith("127."):
            for name in words[1:]:
                if "localhost" not in name:
                    return name
    return None


@pytest.mark.skipif(hosts_name() is None, reason="no other name in /etc/hosts")
def test_the_hosts_file_is_honoured(site: FaultSite) -> None:
    with FaultSite("127.0.0.1") as local:
        url = f"http://{hosts_name()}:{local.port}/1k"
        server = site.fault("dns-nxdomain").dns_server
        (record,) = truth.fetch(local, [{"url": url}], dns_server=server, body="none")
        assert record["error"] is None or record["error"]["phase"] == "connect"


def test_localhost_needs_no_name_server(site: FaultSite) -> None:
    server = site.fault("dns-silent").dns_server
    url = f"http://localhost:{site.port}/1k"
    (record,) = truth.fetch(site, [{"url": url}], dns_server=server, body="base64")
    truth.expect(record, status=200, body=PAGE)


def test_an_address_of_another_kind_of_net_is_blocked_by_what_it_resolves_to(
    site: FaultSite,
) -> None:
    """deny_private looks at the address that is connected to, not at the name."""
    fault = site.fault("dns-ok")
    with FaultSite("127.0.0.3") as local:
        given = [{"url": f"http://ip-127-0-0-{n}.test:{local.port}/1k"} for n in (3, 1)]
        allowed, blocked = truth.fetch(
            local, given, dns_server=fault.dns_server, deny_private=True,
            allow_net="127.0.0.3/32", body="base64",
        )  # fmt: skip
    truth.expect(allowed, status=200, body=PAGE)
    truth.expect(blocked, "blocked_address", origin="local", phase="connect")


def many(site: FaultSite, name: str, count: int, **options: Any) -> list[truth.Record]:
    """Fetch one URL often and at once, by a name server that counts."""
    fault = site.fault(f"dns-{name}")
    inputs: list[truth.Input] = [{"url": f"{fault.url}?{n}"} for n in range(count)]
    return truth.fetch(
        site, inputs, dns_server=fault.dns_server, max_per_host=count,
        max_concurrency=count, retries=0, **options,
    )  # fmt: skip


@pytest.mark.parametrize("profile", [None, "chrome"])
def test_fifty_at_once_ask_for_a_new_name_once(
    site: FaultSite, tmp_path: Path, profile: str | None
) -> None:
    fault = site.fault("dns-slow")
    before = site.hits("dns-slow")
    with Fetcher(
        dns_server=fault.dns_server, impersonate=profile, max_per_host=50,
    ) as fetcher:  # fmt: skip
        summary = fetcher.run([f"{fault.url}?{n}" for n in range(50)], tmp_path / "out")
    assert (summary.records, summary.errors) == (50, {})
    assert summary.stats.connects > 10
    assert site.hits("dns-slow") - before == 2  # A and AAAA


def test_a_name_that_is_not_found_holds_nobody_up(site: FaultSite) -> None:
    began = time.monotonic()
    for record in many(site, "nxdomain", 50, breaker=0):
        truth.expect(record, "dns_error", origin="site", phase="dns")
    assert time.monotonic() - began < 5


def test_a_silent_name_server_holds_the_others_up_for_a_second(
    site: FaultSite,
) -> None:
    for record in many(site, "silent", 20, connect_timeout=1.5, breaker=0):
        truth.expect(record, ("dns_timeout", "dns_error"), phase="dns", origin="site")
        assert record["timing"]["queue"] < 1.5


def test_sessions_and_proxied_requests_wait_for_nobody(site: FaultSite) -> None:
    fault = site.fault("dns-ok")
    inputs: list[truth.Input] = [
        {"url": f"{fault.url}?{n}", "session": f"s{n}"} for n in range(20)
    ]
    before = site.hits("dns-ok")
    records = truth.fetch(site, inputs, dns_server=fault.dns_server, max_per_host=0)
    assert {record["status_code"] for record in records} == {200}
    assert site.hits("dns-ok") - before == 40  # what one learns is not another's
    proxy = site.fault("socks5h").proxy
    inputs = [{"url": f"{site.http}/1k", "proxy": proxy} for _ in range(20)]
    records = truth.fetch(site, inputs, max_per_host=0)
    assert {record["status_code"] for record in records} == {200}
