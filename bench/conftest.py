"""What the bench tests share: servers, programs, and where the modules are."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # benches are no package

import servers  # noqa: E402
from clients import Place  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    build = Path(os.environ.get("BENCH_BUILD", HERE.parent / "build" / "bench"))
    assert (build / "bench_floor").exists(), (
        "build the programs first: make bench-check"
    )
    return Place(build, tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session")
def site(place: Place) -> Iterator[servers.Site | None]:
    """Give nginx, or None where it is not installed: see compare.sites."""
    if servers.nginx_path() is None:
        yield None
        return
    with servers.nginx(place.folder, Path(certifi.where())) as running:
        yield running
