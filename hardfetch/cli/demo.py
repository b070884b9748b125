"""`make demo`: a few thousand URLs of a local fault site through `hardfetch fetch`."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardfetch.testing import FaultSite

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGES = (
    "/1k", "/30k", "/gzip", "/status/404", "/redirect/3", "/charset/gb18030",
    "/br", "/chunked", "/bytes/5000", "/zstd",
)  # fmt: skip
_FAULTS = (
    "silent-after-accept", "silent-mid-body", "trickle-body", "reset-mid-body",
    "close-mid-chunk", "tls-silent", "endless-headers", "tls-garbage",
)  # fmt: skip
_COUNT = 4000
_EVERY = 40  # one URL of so many meets a fault


def _urls(site: FaultSite) -> Iterator[str]:
    faults, pages = itertools.cycle(_FAULTS), itertools.cycle(_PAGES)
    for number in range(_COUNT):
        yield site.url(next(faults if number % _EVERY == 0 else pages))


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 60:
        return f"{value[:60]}… ({len(value)} characters)"
    return value


def _show_one_timeout(output: Path) -> None:
    """Print the first record of a fetch that ran into its time, a field a line."""
    with output.open(encoding="utf-8") as lines:
        records = map(json.loads, lines)
        late = (r for r in records if r["error"] and r["error"]["type"] == "timeout")
        record = next(late, None)
    if record is not None:
        fields = (
            f"  {json.dumps(name)}: {json.dumps(_cut(value), ensure_ascii=False)}"
            for name, value in record.items()
        )
        print("{", ",\n".join(fields), "}", sep="\n")


def main() -> int:
    """Run the demonstration and return the exit code of `hardfetch fetch`."""
    with FaultSite() as site, tempfile.TemporaryDirectory() as folder:
        urls, output = Path(folder, "urls.txt"), Path(folder, "out.ndjson")
        urls.write_text("\n".join(_urls(site)) + "\n", encoding="utf-8")
        options = "--timeout 1 --max-per-host 32 --retries 0"
        arguments = ["fetch", "urls.txt", "-o", "out.ndjson", *options.split()]
        print(f"{_COUNT} URLs of a fault site at {site.http}, one in {_EVERY} faulty\n")
        print("$ hardfetch", *arguments, flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "hardfetch", *arguments]
        code = subprocess.run(command, cwd=folder, check=False).returncode  # noqa: S603
        took = time.monotonic() - began
        count = sum(1 for _ in output.open("rb"))
        print(
            f"\nexit {code} after {took:.1f} s, {count} records; "
            "the first that timed out:\n"
        )
        _show_one_timeout(output)
    return code


if __name__ == "__main__":
    sys.exit(main())
