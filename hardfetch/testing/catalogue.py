"""All faults by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardfetch.testing import (
    charsets,
    dns,
    encodings,
    faults,
    framing,
    h2faults,
    headers,
    proxies,
    socks,
    tlsfaults,
)

if TYPE_CHECKING:
    from hardfetch.testing.model import Spec

_MODULES = (
    faults,
    framing,
    headers,
    encodings,
    charsets,
    tlsfaults,
    h2faults,
    proxies,
    socks,
    dns,
)


def _collect() -> dict[str, Spec]:
    found: dict[str, Spec] = {}
    for module in _MODULES:
        for spec in module.specs():
            name = spec.fault.name
            if name in found:
                raise ValueError(f"two faults are named {name}")
            found[name] = spec
    return found


CATALOGUE: dict[str, Spec] = _collect()
"""Every fault of the site, in the order of its groups."""
