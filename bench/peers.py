"""The same job done with other clients: fetch a list of URLs, write one record each.

    python peers.py CLIENT --urls FILE --output FILE [options]

Each client is used as its own documentation shows for many URLs, with the number in
flight held by as many workers. Records are those of hardfetch as far as the client
knows what goes into them, encoded by orjson; hardfetch's results make their own. A
failed fetch is a record with its error.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from socket import AF_INET
from typing import TYPE_CHECKING, Any

import peers_curl
from job import Job, work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def _resolver(aiohttp: Any, job: Job) -> Any:
    """Return a resolver that knows the names of --resolve."""
    addresses = job.addresses()

    class Fixed(aiohttp.abc.AbstractResolver):  # type: ignore[misc]
        async def resolve(
            self, host: str, port: int = 0, family: int = AF_INET
        ) -> list[dict[str, Any]]:
            entry = {"hostname": host, "host": addresses[host], "port": port}
            return [{**entry, "family": family or AF_INET, "proto": 0, "flags": 0}]

        async def close(self) -> None:
            pass

    return Fixed()


async def aiohttp(job: Job) -> None:
    library = import_module("aiohttp")
    import_module("aiohttp.abc")
    options: dict[str, Any] = {"limit": job.concurrency}
    if job.cacert:
        options["ssl"] = job.context()
    if job.resolve:
        options["resolver"] = _resolver(library, job)
    async with library.ClientSession(
        connector=library.TCPConnector(**options),
        timeout=library.ClientTimeout(total=job.timeout),
    ) as session:

        async def one(seq: int, url: str) -> None:
            start = time.perf_counter()
            async with session.get(url) as response:
                content = await response.read()
                text = await response.text()
            version = response.version
            job.record(
                seq,
                url,
                final_url=str(response.url),
                status=response.status,
                version=f"{version.major}.{version.minor}",
                headers=response.headers.items(),
                text=text,
                size=len(content),
                elapsed=time.perf_counter() - start,
            )

        await work(job, one)


async def httpx(job: Job) -> None:
    library = import_module("httpx")
    limits = library.Limits(
        max_connections=job.concurrency, max_keepalive_connections=job.concurrency
    )
    async with library.AsyncClient(
        limits=limits,
        timeout=job.timeout,
        verify=job.context() if job.cacert else True,
        http2=job.urls[0].startswith("https"),
        follow_redirects=True,
        trust_env=False,
    ) as client:

        async def one(seq: int, url: str) -> None:
            response = await client.get(url)
            job.record(
                seq,
                url,
                final_url=str(response.url),
                status=response.status_code,
                version=response.http_version.removeprefix("HTTP/"),
                headers=response.headers.multi_items(),
                text=response.text,
                size=len(response.content),
                elapsed=response.elapsed.total_seconds(),
            )

        await work(job, one)


async def wreq(job: Job) -> None:
    library = import_module("wreq")
    options: dict[str, Any] = {}
    if job.cacert:
        options["tls_verify"] = library.CertStore.from_pem_stack(job.pem())
    names = {"HTTP_10": "1.0", "HTTP_11": "1.1", "HTTP_2": "2", "HTTP_3": "3"}
    versions = {f"Version.{name}": version for name, version in names.items()}
    client = library.Client(timeout=timedelta(seconds=job.timeout), **options)

    async def one(seq: int, url: str) -> None:
        start = time.perf_counter()
        response = await client.get(url)
        text = await response.text()
        address = response.remote_addr
        job.record(
            seq,
            url,
            final_url=str(response.url),
            status=response.status.as_int(),
            version=versions.get(str(response.version)),
            headers=[
                (str(k, "latin-1"), str(v, "latin-1")) for k, v in response.headers
            ],
            text=text,
            size=response.content_length or len(text),
            elapsed=time.perf_counter() - start,
            peer=(str(address.ip()), address.port()) if address else (None, None),
        )

    await work(job, one)


async def primp(job: Job) -> None:
    library = import_module("primp")
    client = library.AsyncClient(
        timeout=job.timeout, cookie_store=False, ca_cert_file=job.cacert
    )

    async def one(seq: int, url: str) -> None:
        start = time.perf_counter()
        response = await client.get(url)
        text = response.text
        job.record(
            seq,
            url,
            final_url=response.url,
            status=response.status_code,
            version=None,
            headers=response.headers.items(),
            text=text,
            size=len(response.content),
            elapsed=time.perf_counter() - start,
        )

    await work(job, one)


def hardfetch_map(job: Job) -> None:
    library = import_module("hardfetch")
    with library.Fetcher(
        max_concurrency=job.concurrency,
        max_per_host=0,
        timeout=job.timeout,
        cacert=job.cacert,
        impersonate=job.impersonate,
        resolve=tuple(job.resolve),
    ) as fetcher:
        for result in fetcher.map(job.urls):
            if job.output is not None:
                job.failed += result.status_code != 200
                job.output.write(result.ndjson())
                continue
            if result.error is not None:
                job.failure(result.seq, result.input, result.error.type)
                continue
            job.record(
                result.seq,
                result.input,
                final_url=result.final_url,
                status=result.status_code,
                version=result.http_version,
                headers=result.headers.multi_items(),
                text=result.text,
                size=len(result.content),
                elapsed=result.elapsed,
                peer=(result.remote_ip, result.remote_port),
            )


CLIENTS: dict[str, Callable[[Job], Coroutine[Any, Any, None] | None]] = {
    "curl_cffi": peers_curl.curl_cffi_async,
    "curl_cffi-threads": peers_curl.curl_cffi_threads,
    "pycurl": peers_curl.pycurl_multi,
    "aiohttp": aiohttp,
    "httpx": httpx,
    "wreq": wreq,
    "primp": primp,
    "hardfetch-map": hardfetch_map,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--urls", required=True, type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--cacert")
    parser.add_argument("--impersonate")
    parser.add_argument("--grease", action="store_true")
    parser.add_argument("--resolve", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    urls = options.urls.read_text().split()
    with ExitStack() as stack:
        output = None
        if options.output is not None:
            output = stack.enter_context(options.output.open("wb", 1 << 16))
        job = Job(
            urls,
            output,
            options.concurrency,
            options.timeout,
            options.cacert,
            options.impersonate,
            options.grease,
            options.resolve,
        )
        running = CLIENTS[options.client](job)
        if running is not None:
            asyncio.run(running)
    if job.failed == len(urls):
        raise SystemExit(f"every fetch failed of {options.client}")


if __name__ == "__main__":
    main()
