"""A process that was stopped: answers that came meanwhile count, hard limits hold."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 60
SOFT = 2.0  # seconds
STOPPED = 2.5  # seconds that the process does not run: past every soft limit
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
ANSWERED, SILENT, HARD = 20, 3, 4


def read_head(peer: socket.socket) -> str:
    """Return the path that is asked for."""
    peer.settimeout(LIMIT)
    data = b""
    while b"\r\n\r\n" not in data:
        more = peer.recv(65536)
        assert more, "the client has gone"
        data += more
    return data.split(b" ", 2)[1].decode()


def wait_until_stopped(pid: int) -> None:
    end = time.monotonic() + LIMIT
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, "it does not stop"
        time.sleep(0.002)


def test_a_stop_of_the_process_costs_no_answer_that_came_in_time(
    tmp_path: Path,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    listener.settimeout(LIMIT)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    inputs = [f"{url}/answered"] * ANSWERED + [f"{url}/silent"] * SILENT
    hard = {"url": f"{url}/hard", "hard_timeout": SOFT}
    inputs += [json.dumps(hard)] * HARD
    out = tmp_path / "out"
    command = [
        *(sys.executable, "-m", "hardfetch", "fetch", "-", "-o", str(out)),
        *("--timeout", str(SOFT), "--hard-timeout", "60", "--retries", "0"),
        *("--max-per-host", "0", "-q"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write("\n".join(inputs).encode())
        process.stdin.close()
        peers = [listener.accept()[0] for _ in inputs]
        paths = [read_head(peer) for peer in peers]
        os.kill(process.pid, signal.SIGSTOP)
        wait_until_stopped(process.pid)
        for peer, path in zip(peers, paths, strict=True):
            if path != "/silent":
                peer.sendall(PAGE)
        time.sleep(STOPPED)
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(LIMIT) == 0
    for peer in (*peers, listener):
        peer.close()
    records = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert sorted(record["seq"] for record in records) == list(range(len(inputs)))
    for record in records:
        error = record["error"] and record["error"]["type"]
        kind = record["url"].rpartition("/")[2]
        limits = {"answered": None, "silent": "timeout", "hard": "hard_timeout"}
        assert error == limits[kind], record
        if error is None:
            assert record["body"] == "fine"
        else:  # what applied, and by how much it was overrun, is told as ever
            assert 0.2 < record["limits"]["overrun"] < record["elapsed"]
            assert record["elapsed"] < STOPPED + 1.5  # they wait for nothing more
