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


@pytest.mark.parametrize("name", CATALOGUE)
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
