"""All faults by name."""

from __future__ import annotations

from hardfetch.testing import dns, faults, tlsfaults
from hardfetch.testing.model import Spec


def _collect() -> dict[str, Spec]:
    found: dict[str, Spec] = {}
    for module in (faults, tlsfaults, dns):
        for spec in module.specs():
            name = spec.fault.name
            if name in found:
                raise ValueError(f"two faults are named {name}")
            found[name] = spec
    return found


CATALOGUE: dict[str, Spec] = _collect()
"""Every fault of the site, in the order of its groups."""
