"""Descriptors: how many a run needs and how many this process may have."""

from __future__ import annotations

import resource

_RESERVE = 128  # files, rings, epoll, name servers, idle connections on their way out


def descriptors_needed(max_concurrency: int) -> int:
    """Return how many descriptors a run with that many transfers in flight can need.

    A transfer holds one socket, and for a moment a second one while IPv6 and IPv4 race.
    """
    return max_concurrency + max_concurrency // 4 + _RESERVE


def descriptor_limits() -> tuple[int, int]:
    """Return the soft and the hard limit (ulimit -Sn and -Hn)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def allows(limit: int, needed: int) -> bool:
    """Tell whether a limit lets a process have that many descriptors."""
    return limit == resource.RLIM_INFINITY or limit >= needed


def raise_descriptor_limit(needed: int) -> int:
    """Lift the soft limit to needed, as far as the hard one allows; return it."""
    soft, hard = descriptor_limits()
    if allows(soft, needed):
        return soft
    best = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (best, hard))
    except (OSError, ValueError):  # a sandbox may forbid it
        return soft
    return best
