"""The same build over another libcurl, the one in pycurl's wheel: no browser's profile,
no zstd, and all else as it is told elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import strict
import truth
from click.testing import CliRunner

from hardfetch import Fetcher, OptionError
from hardfetch.cli.group import cli
from hardfetch.errors import EngineError
from hardfetch.testing import FaultSite, content

PAGE = content.page(1024)


def library() -> Path | None:
    spec = importlib.util.find_spec("pycurl")
    if spec is None or spec.origin is None:
        return None
    folders = (Path(spec.origin).parent / "pycurl.libs",
               Path(spec.origin).parents[1] / "pycurl.libs")  # fmt: skip
    found = [path for folder in folders for path in folder.glob("libcurl-*.so*")]
    return found[0] if found else None


pytestmark = pytest.mark.skipif(library() is None, reason="no wheel of pycurl")


@pytest.fixture(autouse=True)
def _other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDFETCH_LIBCURL", str(library()))


def test_pages_and_every_way_to_them(site: FaultSite) -> None:
    inputs: list[truth.Input] = [
        {"url": base + "/1k"} for base in (site.http, site.https, site.h2)
    ]
    proxies = ("proxy-http", "proxy-connect", "proxy-https", "socks5h", "socks4a")
    inputs += [truth.ask(site.fault(name)) for name in proxies]
    records = truth.fetch(site, inputs, body="base64")
    for record in records:
        truth.expect(record, status=200, body=PAGE)
    assert [r["http_version"] for r in records[:3]] == ["1.1", "1.1", "2"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_what_it_can_decode_is_decoded_by_the_core(
    site: FaultSite, coding: str
) -> None:
    whole, cut = f"whole-{coding}-length", f"cut-{coding}-50-length"
    records = truth.fetch_faults(site, [whole, cut], body="base64")
    truth.expect(
        records[whole], status=200, body=content.long_text(), decoded=True,
        wire_size=len(content.packed_text(coding)),
    )  # fmt: skip
    assert records[cut]["error"]["type"] == "bad_encoding"
    body = strict.body(records[cut]) or b""
    assert 0 < len(body) < len(content.long_text())
    assert content.long_text().startswith(body)


def test_zstd_is_not_asked_for_and_stays_as_it_is(site: FaultSite) -> None:
    (record,) = truth.fetch(site, [{"url": site.url("/zstd")}], body="base64")
    truth.expect(record, status=200, body=content.packed_text("zstd"), decoded=False)
    (record,) = truth.fetch(site, [{"url": site.url("/headers")}])
    assert '"Accept-Encoding","gzip, deflate, br"' in record["body"]


def test_failures_have_the_same_names(site: FaultSite) -> None:
    cases = {
        "short-body": "incomplete", "chunk-size-letters": "incomplete",
        "answer-noise": "bad_response", "answer-nothing": "empty_reply",
        "close-mid-status-line": "bad_response", "refused": "connect_refused",
        "header-301k": "headers_too_large", "header-5001": "headers_too_large",
        "connect-403": "proxy_refused", "connect-407": "proxy_auth",
        "connect-200-html": "tls_error", "socks5-reply-5": "proxy_refused",
        "socks5-wrong-password": "proxy_auth", "tls-expired": "certificate_error",
        "tls-alert": "tls_error", "tls-no-notify-unsized": "incomplete",
        "h2-rst-mid-body": "incomplete", "silent-mid-body": "timeout",
    }  # fmt: skip
    records = truth.fetch_faults(site, cases, timeout=1)
    assert {name: r["error"]["type"] for name, r in records.items()} == cases
    assert records["connect-200-html"]["error"]["origin"] == "proxy"
    assert records["chunk-size-letters"]["truncated"] == "framing"


def test_profiles_are_refused_at_once_and_in_a_record(site: FaultSite) -> None:
    with (
        Fetcher(impersonate="chrome") as fetcher,
        pytest.raises(OptionError, match=r"impersonate.*curl_cffi"),
    ):
        fetcher.fetch(site.url("/1k"))
    result = CliRunner().invoke(cli, ["fetch", "--impersonate=chrome", site.url("/1k")])
    assert result.exit_code == 2
    assert "curl_cffi" in result.output
    given = {"url": site.url("/1k"), "impersonate": "chrome"}
    (record,) = truth.fetch(site, [given])
    truth.expect(record, "invalid_request", origin="local", phase="queue", url=None)
    assert "curl_cffi" in record["error"]["message"]


def test_the_doctor_names_it_and_what_it_lacks() -> None:
    result = CliRunner().invoke(cli, ["doctor"])
    assert str(library()) in result.output
    assert "gzip, deflate, br by the core" in result.output
    assert "can't impersonate" in result.output


def test_a_library_that_is_none_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "libcurl.so"
    wrong.write_bytes(b"not a library")
    monkeypatch.setenv("HARDFETCH_LIBCURL", str(wrong))
    with pytest.raises(EngineError, match="libcurl"), Fetcher() as fetcher:
        fetcher.fetch("http://127.0.0.1:1/")
    monkeypatch.setenv("HARDFETCH_LIBCURL", str(tmp_path / "missing.so"))
    with pytest.raises(EngineError, match="HARDFETCH_LIBCURL"), Fetcher() as fetcher:
        fetcher.fetch("http://127.0.0.1:1/")
