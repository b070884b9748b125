"""Every fault of the site through one engine: one record each, and a true one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hardfetch import Fetcher
from hardfetch.testing import FaultSite
from hardfetch.testing.catalogue import CATALOGUE
from hardfetch.testing.model import OK

if TYPE_CHECKING:
    from hardfetch import Result
    from hardfetch.testing import Fault

SHORT, LONG = 2.0, 60.0
"""Seconds: for what never ends by itself, and for what a busy machine makes slow."""

_CUT_HEAD = "libcurl takes a head that was cut for a whole one, or for nothing"
_HANDSHAKE = "a handshake that breaks is told as connect_error, if it breaks early"
_TUNNEL = "what breaks within the answer to CONNECT is told as the site's TLS"
NOT_YET: dict[str, str] = {
    "close-mid-status-line": _CUT_HEAD,
    "close-after-status-line": _CUT_HEAD,
    "close-mid-headers": _CUT_HEAD,
    "answer-one-byte": _CUT_HEAD,
    "answer-five-digits": "libcurl takes the first three of five digits",
    "tls-reset": _HANDSHAKE,
    "tls-garbage": _HANDSHAKE,
    "tls-plain-http": _HANDSHAKE,
    "connect-200-close": _HANDSHAKE,
    "connect-200-html": _HANDSHAKE,
    "connect-200-noise": _HANDSHAKE,
    "connect-200-reset": _HANDSHAKE,
    "connect-silent-mid-reply": _TUNNEL,
    "connect-trickled-reply": _TUNNEL,
    "connect-endless-reply": _TUNNEL,
    "connect-close-mid-reply": _TUNNEL,
    "connect-reset": "a proxy's reset is told as connect_error",
    "proxy-leaky": "libcurl refuses a line without colon in the answer to CONNECT",
    "proxy-407": "a proxy's 407 to a plain request is told as the site's answer",
    "tls-no-notify-unsized": "the end without close_notify is told as framing",
}
"""Faults whose record is not right yet, and why; some only at times."""


def request(fault: Fault) -> dict[str, Any]:
    limit = SHORT if fault.hangs and fault.truncated != "size" else LONG
    row = {
        "id": fault.name, "url": fault.url, "method": fault.method,
        "timeout": limit, "hard_timeout": limit, "connect_timeout": limit,
    }  # fmt: skip
    if fault.proxy:
        row["proxy"] = fault.proxy
    if fault.body:
        row["body"] = fault.body
    return row


@pytest.fixture(scope="module")
def met() -> dict[str, tuple[Fault, list[Result]]]:
    """Each fault and what came of it; one engine for all that share a name server."""
    found: dict[str, tuple[Fault, list[Result]]] = {}
    with FaultSite() as site:
        # Those under a short limit by themselves: the others keep two cores busy.
        groups: dict[tuple[str | None, bool], list[Fault]] = {}
        for fault in site.faults:
            found[fault.name] = (fault, [])
            groups.setdefault((fault.dns_server, fault.hangs), []).append(fault)
        for (server, _), faults in groups.items():
            more = {"dns_server": server} if server else {}
            with Fetcher(
                retries=0, cacert=str(site.cafile), max_per_host=0, **more
            ) as fetcher:
                for result in fetcher.map([request(fault) for fault in faults]):
                    found[result.id][1].append(result)
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=NOT_YET[name], strict=False))
        if name in NOT_YET
        else name
        for name in CATALOGUE
    ],
)
def test_each_fault_gets_one_true_record(
    met: dict[str, tuple[Fault, list[Result]]], name: str
) -> None:
    fault, results = met[name]
    (result,) = results
    error = result.error
    assert (error.type if error else OK) in fault.expect
    if error and fault.origin:
        assert error.origin == fault.origin
    if fault.status is not None:
        assert result.status_code == fault.status
    if fault.content is not None:
        assert result.content == fault.content
    if error is None or fault.truncated:
        assert result.record["truncated"] == fault.truncated
