"""What an outcome says about the site, the proxy and us: tables, and nothing else.

An outcome is told apart by type, origin and status, never by message text. The names
are the closed lists of a record; their order is that of ``csrc/err.h``, so that an
index here is the number over there.

Two questions matter to policy. Does this outcome speak against the *host* (breaker,
adaptive rate)? Only what the site bears does. Does it speak against the *exit*? What
the proxy bears does at once; what looks like the site's but came through a proxy is
only a suspicion, which becomes a charge when the host turns out to be alive.
"""

from __future__ import annotations

from enum import Enum

from hardfetch.errors import OptionError

__all__ = [
    "GATE_STATUSES",
    "ORIGINS",
    "PHASES",
    "TIMEOUTS",
    "TYPES",
    "Mark",
    "host_mark",
    "proxy_mark",
    "type_number",
]

TYPES: tuple[str, ...] = (
    "",
    # ours
    "invalid_request",
    "blocked_address",
    "local_port_exhausted",
    "too_many_open_files",
    "out_of_memory",
    "engine_stalled",
    "cancelled",
    "shutdown",
    "deadline",
    "robots_denied",
    "host_unavailable",
    "no_proxy_available",
    "internal",
    # name, connection
    "dns_error",
    "dns_timeout",
    "connect_refused",
    "connect_error",
    "connect_timeout",
    # proxy stage
    "proxy_refused",
    "proxy_auth",
    "proxy_protocol",
    "proxy_timeout",
    # TLS
    "tls_error",
    "tls_timeout",
    "certificate_error",
    # time
    "first_byte_timeout",
    "idle_timeout",
    "timeout",
    "hard_timeout",
    # answer
    "send_error",
    "connection_reset",
    "empty_reply",
    "bad_response",
    "headers_too_large",
    "incomplete",
    "bad_encoding",
    "redirect_loop",
    "too_many_redirects",
    "bad_redirect",
    "http2_error",
)

PHASES: tuple[str, ...] = (
    "queue",
    "dns",
    "connect",
    "proxy",
    "tls",
    "send",
    "first_byte",
    "headers",
    "body",
    "decode",
)

ORIGINS: tuple[str, ...] = ("site", "proxy", "local")

GATE_STATUSES = frozenset({429, 503})
"""Statuses by which a host asks everybody to wait."""

TIMEOUTS = frozenset(
    {
        "dns_timeout",
        "connect_timeout",
        "proxy_timeout",
        "tls_timeout",
        "first_byte_timeout",
        "idle_timeout",
        "timeout",
        "hard_timeout",
    }
)

# The host answered, whatever else went wrong: it is there.
_ANSWERED = frozenset(
    {
        "headers_too_large",
        "incomplete",
        "bad_encoding",
        "redirect_loop",
        "too_many_redirects",
        "bad_redirect",
    }
)

# What a proxy that is broken, captive or overloaded makes look like the site's fault.
_SUSPECT = TIMEOUTS | {
    "dns_error",
    "connect_refused",
    "connect_error",
    "tls_error",
    "certificate_error",
    "send_error",
    "connection_reset",
    "empty_reply",
    "bad_response",
    "incomplete",
    "bad_encoding",
    "http2_error",
}

# Over plain http a proxy answers with these in its own name; 503 is a gate as well.
_SUSPECT_STATUSES = frozenset({502, 503, 504})

_NUMBERS = {name: number for number, name in enumerate(TYPES)}


class Mark(Enum):
    """What one outcome says about one party."""

    HEAL = "heal"
    NONE = "none"
    SUSPECT = "suspect"
    HURT = "hurt"


def type_number(name: str) -> int:
    """Return the number of an error type in ``csrc/err.h``.

    Raises:
        OptionError: the name is not in the closed list.
    """
    try:
        return _NUMBERS[name]
    except KeyError:
        raise OptionError(f"not an error type: {name!r}") from None


def host_mark(error: str, origin: str) -> Mark:
    """Tell what an outcome says about the host.

    Any status line heals, a 500 too: the breaker is about hosts that are not there,
    and a page that fails is a result.
    """
    if not error or error in _ANSWERED:
        return Mark.HEAL
    return Mark.HURT if origin == "site" else Mark.NONE


def proxy_mark(error: str, origin: str, status: int = 0) -> Mark:
    """Tell what an outcome that came through a proxy says about that proxy."""
    if not error:
        return Mark.SUSPECT if status in _SUSPECT_STATUSES else Mark.HEAL
    if origin == "proxy":
        return Mark.HURT
    if origin == "site":
        return Mark.SUSPECT if error in _SUSPECT else Mark.HEAL
    return Mark.NONE
