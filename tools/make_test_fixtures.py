"""Makes hardfetch/testing/fixtures/bodies.json: br and zstd bodies of the fault site.

Needs the packages brotli and zstandard. Run once; the result is committed:
    python tools/make_test_fixtures.py
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import brotli
import zstandard

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "hardfetch" / "testing"))

import content  # noqa: E402 - found through the path set above


def brotli_zeros(size: int) -> bytes:
    """`size` zero bytes in brotli, fed in pieces to keep memory flat."""
    packer = brotli.Compressor(quality=5, lgwin=22)
    parts = [packer.process(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.finish()])


def zstd_zeros(size: int) -> bytes:
    """`size` zero bytes in zstd."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


def main() -> None:
    """Writes the file and prints the sizes."""
    text = content.long_text()
    bodies = {
        "text.br": brotli.compress(text, quality=6),
        "text.zstd": zstandard.ZstdCompressor(level=6).compress(text),
        "bomb.br": brotli_zeros(1 << 30),
        "bomb.zstd": zstd_zeros(1 << 30),
    }
    # Tells a test that the page generator still makes the text that was packed.
    digest = hashlib.sha256(text).hexdigest()
    packed = {name: base64.b64encode(data).decode() for name, data in bodies.items()}
    packed["text.sha256"] = digest
    target = ROOT / "hardfetch" / "testing" / "fixtures" / "bodies.json"
    target.write_text(json.dumps(packed, indent=1) + "\n")
    for name, data in bodies.items():
        sys.stdout.write(f"{name}: {len(data)} bytes\n")


if __name__ == "__main__":
    main()
