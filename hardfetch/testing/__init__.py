"""A server of healthy pages and of faults, on loopback, for tests and demonstrations.

It needs neither the compiled core nor anything outside the standard library.
"""

from __future__ import annotations

from hardfetch.testing.model import Fault
from hardfetch.testing.site import FaultSite

__all__ = ["Fault", "FaultSite"]
