"""What every client under comparison gets to do, and the record that it writes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

import orjson

Pairs = Iterable[tuple[str, Any]]


@dataclass
class Job:
    """What is to be fetched, and how."""

    urls: list[str]
    output: BinaryIO | None  # None: the objects are read and no record is made
    concurrency: int
    timeout: float
    cacert: str | None
    impersonate: str | None
    grease: bool
    resolve: list[str]
    failed: int = 0
    turn: Iterator[tuple[int, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.turn = iter(enumerate(self.urls))

    def record(
        self,
        seq: int,
        url: str,
        *,
        final_url: str,
        status: int,
        version: str | None,
        headers: Pairs,
        text: str,
        size: int,
        elapsed: float,
        peer: tuple[str, int] | tuple[None, None] = (None, None),
    ) -> None:
        """Write the record of an answer."""
        self.failed += status != 200
        if self.output is None:
            return
        pairs = list(headers)
        content_type = next(
            (value for name, value in pairs if name.lower() == "content-type"), None
        )
        line = {
            "schema": 1,
            "seq": seq,
            "id": None,
            "input": url,
            "url": url,
            "final_url": final_url,
            "method": "GET",
            "status_code": status,
            "http_version": version,
            "headers": pairs,
            "content_type": content_type,
            "charset": "utf-8",
            "charset_source": "header",
            "size": size,
            "wire_size": size,
            "decoded": False,
            "truncated": None,
            "redirects": [],
            "remote_ip": peer[0],
            "remote_port": peer[1],
            "reused": None,
            "proxy": None,
            "impersonate": self.impersonate,
            "attempts": [
                {
                    "n": 1,
                    "proxy": None,
                    "status_code": status,
                    "error": None,
                    "elapsed": elapsed,
                    "wait": 0.0,
                }
            ],
            "timing": {
                "queue": None,
                "dns": None,
                "connect": None,
                "tls": None,
                "first_byte": None,
                "total": elapsed,
            },
            "elapsed": elapsed,
            "limits": {
                "timeout": self.timeout,
                "hard_timeout": None,
                "deadline": None,
                "overrun": None,
            },
            "error": None,
            "fetched_at": datetime.now(timezone.utc),
            "meta": None,
            "body": text,
        }
        self._write(line)

    def failure(self, seq: int, url: str, error: BaseException | str) -> None:
        """Write the record of a fetch that brought nothing."""
        self.failed += 1
        name = error if isinstance(error, str) else type(error).__name__
        line = {"schema": 1, "seq": seq, "input": url, "status_code": None}
        self._write({**line, "error": {"type": name, "message": str(error)}})

    def _write(self, line: dict[str, Any]) -> None:
        if self.output is not None:
            self.output.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the job's certificates."""
        return ssl.create_default_context(cafile=self.cacert)

    def pem(self) -> bytes:
        """Return the job's CA certificates."""
        return Path(self.cacert or "").read_bytes()

    def addresses(self) -> dict[str, str]:
        """Return the addresses of --resolve by name."""
        return {name: ip for name, _, ip in (r.split(":") for r in self.resolve)}


async def work(job: Job, one: Callable[[int, str], Awaitable[None]]) -> None:
    async def worker() -> None:
        for seq, url in job.turn:
            try:
                await one(seq, url)
            except Exception as error:  # noqa: BLE001  # what each client raises
                job.failure(seq, url, error)

    await asyncio.gather(*(worker() for _ in range(job.concurrency)))
