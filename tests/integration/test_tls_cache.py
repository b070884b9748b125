"""TLS sessions: shared by an identity's lanes, kept over runs, and nobody else's.

The site's `/whoami` tells whether a connection resumed an earlier TLS session.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import truth

from hardfetch import Fetcher, OptionError
from hardfetch.testing import FaultSite, tlsfaults

HOSTS = 60  # more than libcurl's own cache has places for
LANE = 32  # fetches in one multi: HF_LANE_SIZE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def resumed(
    site: FaultSite, inputs: list[truth.Input], **options: Any
) -> list[bool | None]:
    """Fetch in a run of its own; whether each was resumed."""
    told = []
    for record in truth.fetch(site, inputs, **options):
        assert (record["status_code"], record["error"]) == (200, None), record
        told.append(json.loads(record["body"])["resumed"])
    return told


def test_a_session_of_one_lane_serves_in_another(site: FaultSite) -> None:
    who = f"{site.https}/whoami"

    async def run() -> tuple[bool, bool]:
        with Fetcher(cacert=site.cafile, max_per_host=0, loops=1) as fetcher:
            first = await fetcher.afetch(who)
            # These fill the lane of the first, so that the last gets another.
            slow = [
                asyncio.ensure_future(fetcher.afetch(f"{site.http}/slow?s=3"))
                for _ in range(LANE)
            ]
            while fetcher.stats().in_flight_now < LANE:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            last = await fetcher.afetch(who, fresh=True)
            assert not any(task.done() for task in slow)
            fetcher.stop(0)
            await asyncio.gather(*slow)
            return first.json()["resumed"], last.json()["resumed"]

    assert asyncio.run(run()) == (False, True)


@pytest.mark.parametrize("profile", [None, "chrome", "firefox"])
@pytest.mark.parametrize("base", ["https", "h2"])
def test_the_next_run_resumes(
    site: FaultSite, file: Path, base: str, profile: str | None
) -> None:
    inputs = [{"url": f"{getattr(site, base)}/whoami"}]
    options = {"impersonate": profile}
    assert resumed(site, inputs, tls_cache=file, **options) == [False]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert resumed(site, inputs, **options) == [False]
    for _ in range(3):  # each run leaves sessions for the next
        assert resumed(site, inputs, tls_cache=file, **options) == [True]
    assert list(file.parent.iterdir()) == [file]


def many_hosts(
    site: FaultSite, file: Path, count: int
) -> tuple[list[truth.Input], dict[str, Any]]:
    """As many hosts, all of them the site's, and the options with which to ask them."""
    port = site.https.rpartition(":")[2]
    names = [f"h{n}.test" for n in range(count)]
    inputs: list[truth.Input] = [
        {"url": f"https://{name}:{port}/whoami"} for name in names
    ]
    resolve = [f"{name}:{port}:127.0.0.1" for name in names]
    return inputs, {"resolve": resolve, "verify": False, "tls_cache": file}


@pytest.mark.parametrize("loops", [1, 3])
def test_every_host_of_many_is_resumed(site: FaultSite, file: Path, loops: int) -> None:
    inputs, options = many_hosts(site, file, HOSTS)
    options |= {"loops": loops, "max_concurrency": 12}
    assert resumed(site, inputs, **options) == [False] * HOSTS
    assert resumed(site, inputs, **options) == [True] * HOSTS
    # Within a run as well, where libcurl alone would have forgotten them.
    twice = [{**each, "fresh": True} for each in (*inputs, *inputs)]
    assert resumed(site, twice, **options) == [True] * HOSTS * 2


@pytest.mark.parametrize("newest", ["TLSv1_2", "TLSv1_3"])
def test_none_is_lost_where_a_whole_window_of_them_comes_at_once(
    site: FaultSite, file: Path, newest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below 1.3 a session serves again, so that no new one comes in its place."""
    served = tlsfaults.server_context("site")
    monkeypatch.setattr(served, "maximum_version", getattr(ssl.TLSVersion, newest))
    inputs, options = many_hosts(site, file, 3 * HOSTS)
    options |= {"loops": 1, "max_concurrency": 100}
    told = [resumed(site, inputs, **options) for _ in range(4)]
    assert [run.count(True) for run in told] == [0] + [len(inputs)] * 3


def test_a_certificate_that_was_not_checked_is_not_trusted_later(
    site: FaultSite, file: Path
) -> None:
    url = site.fault("tls-expired").url
    for _ in range(2):
        (record,) = truth.fetch(site, [{"url": url}], verify=False, tls_cache=file)
        assert record["status_code"] == 200
    (record,) = truth.fetch(site, [{"url": url}], tls_cache=file)
    truth.expect(record, "certificate_error", origin="site", phase="tls")


def test_identities_keep_their_own_over_runs(site: FaultSite, file: Path) -> None:
    proxy = (site.fault("proxy-connect").proxy or "").replace("u:p@", "")

    def by(user: str) -> str:
        return proxy.replace("://", f"://{user}@")

    who = f"{site.https}/whoami"
    kinds: list[truth.Input] = [
        {"url": who}, {"url": who, "session": "a"}, {"url": who, "session": "b"},
        {"url": who, "impersonate": "chrome"}, {"url": who, "proxy": by("u1:p")},
        {"url": who, "proxy": by("u2:p")}, {"url": who, "proxy": by("u2:q")},
    ]  # fmt: skip
    for n, kind in enumerate(kinds):
        assert resumed(site, [kind], tls_cache=file) == [False], n
    for kind in kinds:
        assert resumed(site, [kind], tls_cache=file) == [True]


def test_no_credential_stands_in_the_file(site: FaultSite, file: Path) -> None:
    proxy = (site.fault("proxy-connect").proxy or "").replace("u:p@", "")
    given: truth.Input = {
        "url": f"{site.https}/whoami?key=in-the-url", "session": "a-session-name",
        "proxy": proxy.replace("://", "://user-name:pass-word@"),
        "headers": {"Authorization": "Bearer in-a-header"},
    }  # fmt: skip
    assert resumed(site, [given], tls_cache=file) == [False]
    saved = file.read_bytes()
    port = site.https.rpartition(":")[2].encode()
    assert b"127.0.0.1:" + port in saved
    for secret in ("in-the-url", "session-name", "user-name", "pass-word", "a-header"):
        assert secret.encode() not in saved
    assert proxy.rpartition(":")[2].encode() not in saved


def test_two_fetchers_with_one_file_share_and_map_and_fetch_save(
    site: FaultSite, file: Path
) -> None:
    who = f"{site.https}/whoami"
    with Fetcher(cacert=site.cafile, tls_cache=file) as one:
        (first,) = one.map([who])
        assert first.json()["resumed"] is False
        assert file.stat().st_size > 500
        with Fetcher(cacert=site.cafile, tls_cache=str(file)) as two:
            assert two.fetch(who).json()["resumed"] is True
    with Fetcher(cacert=site.cafile, tls_cache=file) as three:
        assert three.fetch(who).json()["resumed"] is True


def test_a_file_of_something_else_is_refused_and_left_alone(file: Path) -> None:
    for text in (b"my thesis, the only copy", b"x"):
        file.write_bytes(text)
        with pytest.raises(OptionError, match=r"tls_cache: .*something else"):
            Fetcher(tls_cache=file)
        assert file.read_bytes() == text
    with pytest.raises(OptionError, match="tls_cache: .* is no file"):
        Fetcher(tls_cache=file.parent)
    with pytest.raises(OptionError, match="tls_cache: there is no folder"):
        Fetcher(tls_cache=file / "missing" / "file")


def test_a_damaged_file_starts_afresh(site: FaultSite, file: Path) -> None:
    inputs = [{"url": f"{site.https}/whoami"}]
    damages: list[Callable[[bytes], bytes]] = [
        lambda saved: saved[: len(saved) // 2],
        lambda saved: saved[:-200] + b"\xff" * 100 + saved[-100:],
        lambda saved: saved[:8] + b"\x09" + saved[9:],
        lambda saved: saved[:0],
    ]
    for damage in damages:
        resumed(site, inputs, tls_cache=file)
        file.write_bytes(damage(file.read_bytes()))
        assert resumed(site, inputs, tls_cache=file) == [False]
        assert resumed(site, inputs, tls_cache=file) == [True]


def test_a_file_that_cannot_be_written_is_warned_of_after_the_records(
    site: FaultSite, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with Fetcher(cacert=site.cafile, tls_cache=folder / "file") as fetcher:
        folder.rmdir()
        with pytest.warns(RuntimeWarning, match="tls_cache"):
            summary = fetcher.run([f"{site.https}/whoami"], tmp_path / "out")
    assert summary.records == 1
    assert json.loads((tmp_path / "out").read_bytes())["status_code"] == 200


def test_a_link_stays_a_link(site: FaultSite, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    resumed(site, [{"url": f"{site.https}/whoami"}], tls_cache=link)
    assert link.is_symlink()
    assert real.stat().st_size > 500


def test_the_command_line_keeps_them(site: FaultSite, tmp_path: Path) -> None:
    urls = tmp_path / "urls"
    urls.write_text(f"{site.https}/whoami\n")
    told = []
    for n in range(2):
        out = tmp_path / f"out{n}"
        command = [
            sys.executable, "-m", "hardfetch", "fetch", str(urls), "-o", str(out),
            "--cacert", str(site.cafile), "--tls-cache", str(tmp_path / "sessions"),
        ]  # fmt: skip
        subprocess.run(command, check=True, timeout=30, capture_output=True)
        told.append(json.loads(json.loads(out.read_bytes())["body"])["resumed"])
    assert told == [False, True]


def test_without_the_option_no_warning_and_no_file(
    site: FaultSite, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resumed(site, [{"url": f"{site.https}/whoami"}]) == [False]
    assert list(tmp_path.iterdir()) == []
