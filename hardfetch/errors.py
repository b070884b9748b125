"""Every exception that hardfetch raises.

The tree::

    HardfetchError
    ├── OptionError (ValueError)          a value or name that an option does not allow
    ├── DeadlineExceeded (TimeoutError)   the caller's own code outlived `deadline()`
    ├── EngineError (RuntimeError)        the compiled core could not do its work
    │   ├── ClosedError                   used after close
    │   └── ForkError                     used in a child of the process that made it
    ├── SinkError (OSError)               the output could not be written; has errno
    └── FetchError                        one fetch; has .error and .result
        ├── HTTPError                     raise_for_status() met 4xx or 5xx
        ├── LocalError                    ours: the fetch was refused or ended here
        │   ├── InvalidRequest (ValueError)
        │   ├── BlockedAddress
        │   ├── RobotsDenied
        │   ├── HostUnavailable
        │   ├── Cancelled                 cancelled, shutdown
        │   ├── ResourceExhausted         ports, descriptors, memory
        │   └── JobTimeout (Timeout)      the whole-job `deadline`
        ├── ConnectionFailed              name, connection
        │   ├── DNSError
        │   │   └── DNSTimeout (Timeout)
        │   ├── ConnectTimeout (Timeout)
        │   ├── ProxyError
        │   │   └── ProxyTimeout (Timeout)
        │   └── SSLError
        │       ├── CertificateError
        │       └── SSLTimeout (Timeout)
        ├── Timeout (TimeoutError)
        │   └── ReadTimeout               first byte, idle, soft and hard total
        └── ResponseError                 an answer that is broken
            ├── ConnectionReset
            ├── IncompleteRead
            ├── ContentDecodingError
            └── RedirectError
                └── TooManyRedirects
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardfetch.record import Error, Result


class HardfetchError(Exception):
    """The root of all exceptions of this package."""


class OptionError(HardfetchError, ValueError):
    """An option's name or value is not allowed; the message says what would be."""


class DeadlineExceeded(HardfetchError, TimeoutError):  # noqa: N818 - a settled name
    """The caller's own code ran past its `hardfetch.deadline`."""


class EngineError(HardfetchError, RuntimeError):
    """The compiled core could not be started or failed; the message is its reason."""


class ClosedError(EngineError):
    """An engine or fetcher was used after its close."""


class ForkError(EngineError):
    """An engine was used in a child of the process that made it."""


class SinkError(HardfetchError, OSError):
    """The output could not be opened or written. `errno` holds the system's number."""


class FetchError(HardfetchError):
    """One fetch that brought no good answer.

    `error` is the record's error (None for an HTTPError) and `result` the whole result.
    """

    def __init__(
        self, message: str, error: Error | None = None, result: Result | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.result = result

    def __reduce__(
        self,
    ) -> tuple[type[FetchError], tuple[str, Error | None, Result | None]]:
        """Keep `error` and `result` through pickle."""
        return type(self), (str(self.args[0]), self.error, self.result)

    def __str__(self) -> str:
        """Return the message (the OSError in some bases would print its own form)."""
        return str(self.args[0])


class HTTPError(FetchError):
    """`raise_for_status` met a status of 400 or above."""


class LocalError(FetchError):
    """The fetch was refused or ended on this side."""


class InvalidRequest(LocalError, ValueError):  # noqa: N818
    """The input is no request that can be sent."""


class BlockedAddress(LocalError):  # noqa: N818
    """The resolved address is not public and `deny_private` is on."""


class RobotsDenied(LocalError):  # noqa: N818
    """robots.txt forbids this URL."""


class HostUnavailable(LocalError):  # noqa: N818
    """The host's breaker is open, or no proxy is left."""


class Cancelled(LocalError):  # noqa: N818
    """The request was cancelled, or the fetcher closed before it ended."""


class ResourceExhausted(LocalError):  # noqa: N818
    """This machine ran out of ports, descriptors or memory."""


class ConnectionFailed(FetchError):  # noqa: N818
    """No connection to the site: name, TCP, proxy or TLS."""


class Timeout(FetchError, TimeoutError):  # noqa: N818 - requests' name
    """A limit in time ended the fetch."""


class JobTimeout(LocalError, Timeout):  # noqa: N818
    """The whole-job `deadline` passed: queue, attempts and back-off together."""


class DNSError(ConnectionFailed):
    """The name did not resolve."""


class DNSTimeout(DNSError, Timeout):  # noqa: N818
    """The name did not resolve in time."""


class ConnectTimeout(ConnectionFailed, Timeout):
    """No connection within `connect_timeout`."""


class ProxyError(ConnectionFailed):
    """The proxy refused, or did not speak its protocol."""


class ProxyTimeout(ProxyError, Timeout):  # noqa: N818
    """The proxy did not answer in time."""


class SSLError(ConnectionFailed):
    """The TLS handshake failed."""


class SSLTimeout(SSLError, Timeout):  # noqa: N818
    """The TLS handshake did not end in time."""


class CertificateError(SSLError):
    """The site's certificate was not accepted."""


class ReadTimeout(Timeout):
    """No byte in time, or the fetch as a whole ran past its total."""


class ResponseError(FetchError):
    """The answer is broken."""


class ConnectionReset(ResponseError):  # noqa: N818
    """The connection ended before the answer did."""


class IncompleteRead(ResponseError):  # noqa: N818
    """The body is shorter than announced, or its framing is broken."""


class ContentDecodingError(ResponseError):
    """The body's content encoding is broken or cut."""


class RedirectError(ResponseError):
    """A redirect that cannot be followed."""


class TooManyRedirects(RedirectError):  # noqa: N818
    """More redirects than `max_redirects`."""


#: The class that each `error.type` of a record is raised as.
TYPE_CLASSES: dict[str, type[FetchError]] = {
    "invalid_request": InvalidRequest,
    "blocked_address": BlockedAddress,
    "local_port_exhausted": ResourceExhausted,
    "too_many_open_files": ResourceExhausted,
    "out_of_memory": ResourceExhausted,
    "engine_stalled": LocalError,
    "cancelled": Cancelled,
    "shutdown": Cancelled,
    "deadline": JobTimeout,
    "robots_denied": RobotsDenied,
    "host_unavailable": HostUnavailable,
    "no_proxy_available": HostUnavailable,
    "internal": LocalError,
    "dns_error": DNSError,
    "dns_timeout": DNSTimeout,
    "connect_refused": ConnectionFailed,
    "connect_error": ConnectionFailed,
    "connect_timeout": ConnectTimeout,
    "proxy_refused": ProxyError,
    "proxy_auth": ProxyError,
    "proxy_protocol": ProxyError,
    "proxy_timeout": ProxyTimeout,
    "tls_error": SSLError,
    "tls_timeout": SSLTimeout,
    "certificate_error": CertificateError,
    "first_byte_timeout": ReadTimeout,
    "idle_timeout": ReadTimeout,
    "timeout": ReadTimeout,
    "hard_timeout": ReadTimeout,
    "send_error": ConnectionReset,
    "connection_reset": ConnectionReset,
    "empty_reply": ConnectionReset,
    "bad_response": ResponseError,
    "headers_too_large": ResponseError,
    "incomplete": IncompleteRead,
    "bad_encoding": ContentDecodingError,
    "redirect_loop": RedirectError,
    "too_many_redirects": TooManyRedirects,
    "bad_redirect": RedirectError,
    "http2_error": ResponseError,
}


def error_class(error_type: str) -> type[FetchError]:
    """Return the class for an `error.type`; FetchError for one of a later version."""
    return TYPE_CLASSES.get(error_type, FetchError)
