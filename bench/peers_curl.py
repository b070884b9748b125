"""Clients on libcurl: curl_cffi as it is, and pycurl driven by epoll."""

from __future__ import annotations

import io
import select
import threading
from importlib import import_module
from typing import Any

from job import Job, work

# --- curl_cffi ----------------------------------------------------------------------


def _curl_options(job: Job) -> dict[Any, Any]:
    curl_cffi = import_module("curl_cffi")
    options: dict[Any, Any] = {}
    if job.resolve:
        options[curl_cffi.CurlOpt.RESOLVE] = job.resolve
    if job.grease:
        options[curl_cffi.CurlOpt.ECH] = "grease"
    return options


def _curl_session(job: Job) -> dict[str, Any]:
    return {
        "timeout": job.timeout,
        "verify": job.cacert or True,
        "impersonate": job.impersonate,
        "curl_options": _curl_options(job),
    }


_CURL_VERSIONS = {1: "1.0", 2: "1.1", 3: "2", 30: "3"}


def _curl_record(job: Job, seq: int, url: str, response: Any) -> None:
    job.record(
        seq,
        url,
        final_url=response.url,
        status=response.status_code,
        version=_CURL_VERSIONS.get(response.http_version),
        headers=response.headers.multi_items(),
        text=response.text,
        size=len(response.content),
        elapsed=response.elapsed.total_seconds(),
        peer=(response.primary_ip, response.primary_port),
    )


async def curl_cffi_async(job: Job) -> None:
    requests = import_module("curl_cffi.requests")
    async with requests.AsyncSession(
        max_clients=job.concurrency, **_curl_session(job)
    ) as session:

        async def one(seq: int, url: str) -> None:
            _curl_record(job, seq, url, await session.get(url))

        await work(job, one)


def curl_cffi_threads(job: Job) -> None:
    requests = import_module("curl_cffi.requests")
    lock = threading.Lock()

    def worker() -> None:
        with requests.Session(**_curl_session(job)) as session:
            while True:
                with lock:
                    item = next(job.turn, None)
                if item is None:
                    return
                seq, url = item
                try:
                    response = session.get(url)
                    with lock:
                        _curl_record(job, seq, url, response)
                except Exception as error:  # noqa: BLE001
                    with lock:
                        job.failure(seq, url, error)

    threads = [threading.Thread(target=worker) for _ in range(job.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- pycurl -------------------------------------------------------------------------


class _Easy:
    """A reused handle and what came in by it."""

    def __init__(self, job: Job, pycurl: Any) -> None:
        self.job = job
        self.pycurl = pycurl
        self.handle = pycurl.Curl()
        self.handle.owner = self
        self.handle.setopt(pycurl.NOSIGNAL, 1)
        self.handle.setopt(pycurl.FOLLOWLOCATION, 1)
        self.handle.setopt(pycurl.TIMEOUT_MS, int(job.timeout * 1000))
        self.handle.setopt(pycurl.HEADERFUNCTION, self.header)
        self.handle.setopt(pycurl.ACCEPT_ENCODING, "")
        if job.cacert:
            self.handle.setopt(pycurl.CAINFO, job.cacert)
        if job.resolve:
            self.handle.setopt(pycurl.RESOLVE, job.resolve)

    def header(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):
            self.headers.clear()
            return
        name, colon, value = line.partition(b":")
        if colon:
            self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def begin(self, seq: int, url: str) -> None:
        self.seq, self.url = seq, url
        self.headers: list[tuple[str, str]] = []
        self.body = io.BytesIO()
        self.handle.setopt(self.pycurl.URL, url)
        self.handle.setopt(self.pycurl.WRITEDATA, self.body)

    def end(self, error: str | None) -> None:
        if error is not None:
            self.job.failure(self.seq, self.url, error)
            return
        get, names = self.handle.getinfo, self.pycurl
        content = self.body.getvalue()
        self.job.record(
            self.seq,
            self.url,
            final_url=get(names.EFFECTIVE_URL),
            status=get(names.RESPONSE_CODE),
            version=_CURL_VERSIONS.get(get(names.INFO_HTTP_VERSION)),
            headers=[(name, value.strip()) for name, value in self.headers],
            text=content.decode(),
            size=len(content),
            elapsed=get(names.TOTAL_TIME),
            peer=(get(names.PRIMARY_IP), get(names.PRIMARY_PORT)),
        )


class _Select:
    """A multi handle as pycurl's own examples drive it."""

    def __init__(self, job: Job, pycurl: Any) -> None:
        self.job = job
        self.pycurl = pycurl
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_MAXCONNECTS, job.concurrency)
        self.idle = [_Easy(job, pycurl) for _ in range(job.concurrency)]

    def fill(self) -> bool:
        """Start what may start. Returns False when nothing is in flight."""
        while self.idle and (item := next(self.job.turn, None)) is not None:
            easy = self.idle.pop()
            easy.begin(*item)
            self.multi.add_handle(easy.handle)
        return len(self.idle) < self.job.concurrency

    def wait(self) -> None:
        _, running = self.multi.perform()
        if running + len(self.idle) >= self.job.concurrency:  # none has ended
            self.multi.select(1.0)

    def collect(self) -> None:
        left = 1
        while left:
            left, done, failed = self.multi.info_read()
            ended = [(handle, None) for handle in done]
            ended += [(handle, message) for handle, _, message in failed]
            for handle, error in ended:
                self.multi.remove_handle(handle)
                handle.owner.end(error)
                self.idle.append(handle.owner)


class _Epoll(_Select):
    """The same over epoll: select ends at descriptor 1023."""

    def __init__(self, job: Job, pycurl: Any) -> None:
        super().__init__(job, pycurl)
        self.epoll = select.epoll()
        self.watched: set[int] = set()
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self.on_socket)

    def on_socket(self, what: int, fd: int, _multi: Any, _data: Any) -> None:
        if what == self.pycurl.POLL_REMOVE:
            if fd in self.watched:
                self.watched.discard(fd)
                self.epoll.unregister(fd)
            return
        events = select.EPOLLIN if what & self.pycurl.POLL_IN else 0
        events |= select.EPOLLOUT if what & self.pycurl.POLL_OUT else 0
        if fd in self.watched:
            self.epoll.modify(fd, events)
        else:
            self.watched.add(fd)
            self.epoll.register(fd, events)

    def wait(self) -> None:
        pycurl, timeout = self.pycurl, self.multi.timeout()
        if timeout == 0:
            self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            return
        for fd, events in self.epoll.poll(timeout / 1000 if timeout > 0 else 1.0):
            mask = pycurl.CSELECT_IN if events & ~select.EPOLLOUT else 0
            mask |= pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
            self.multi.socket_action(fd, mask)


def pycurl_multi(job: Job) -> None:
    kind = _Select if job.concurrency < 500 else _Epoll
    multi = kind(job, import_module("pycurl"))
    while multi.fill():
        multi.wait()
        multi.collect()
