"""A stand-in for the server of NCCL's RAS: it speaks the dialogue, and does whatever else a test wants."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from mpmon.probes.nccl_ras import Address
from tests.patience import NEVER_S

GREETING = {"CLIENT PROTOCOL 2": b"SERVER PROTOCOL 2\n", "TIMEOUT 5": b"OK\n", "SET FORMAT json": b"OK\n"}
"""What NCCL 2.28.7 and later answer."""

Talk = Callable[[socket.socket, list[str]], None]


def communicator(
    *ranks: dict[str, Any], missing: tuple[dict[str, Any], ...] = (), size: int | None = None
) -> dict[str, Any]:
    """As VERBOSE STATUS tells it, with all of its fields."""
    return {
        "hash": "0x2f3a", "secondary_hash": "0x99:0x7", "size": size or len(ranks) + len(missing), "ranks_count": len(ranks),
        "missing_ranks_count": len(missing), "ranks": list(ranks), "missing_ranks": list(missing),
    }  # fmt: skip


ADDRESS = "192.0.2.2"
"""How NCCL calls a machine: by the address of the interface that it uses."""


def rank(number: int, pid: int, *, host: str = ADDRESS, **counts: int) -> dict[str, Any]:
    kinds = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
    return {
        "rank": number, "host": host, "pid": pid, "cuda_dev": number, "nvml_dev": number,
        "status": {"init_state": 7, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
        "collective_counts": {kind: counts.get(kind, 0) for kind in kinds},
    }  # fmt: skip


def missing(number: int, pid: int, *, host: str = ADDRESS, dead: bool = False) -> dict[str, Any]:
    return {
        "rank": number, "host": host, "pid": pid, "cuda_dev": number, "nvml_dev": number,
        "status": {"unresponsive": not dead, "considered_dead": dead},
    }  # fmt: skip


def answer(*communicators: dict[str, Any]) -> bytes:
    return json.dumps({
        "nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2026-11-23 12:00:00", "communicators_count": len(communicators), "communicators": communicators,
        "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
    }).encode()  # fmt: skip


def says(status: bytes, greeting: dict[str, bytes] | None = None) -> Talk:
    """The dialogue, with this answer to the last line."""
    known = {**GREETING, **(greeting or {})}

    def talk(line: socket.socket, heard: list[str]) -> None:
        with line.makefile("rb") as reader:
            for raw in reader:
                words = raw.decode().strip()
                heard.append(words)
                if words == "VERBOSE STATUS":
                    line.sendall(status)
                    return
                line.sendall(known.get(words, b"ERROR: Unknown command\n"))

    return talk


@contextlib.contextmanager
def ras(talk: Talk) -> Iterator[tuple[Address, list[str]]]:
    """Where it listens, and what it was asked, in all connections."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                heard.append("connected")
                with line, contextlib.suppress(OSError):
                    talk(line, heard)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1]), heard
        server.shutdown(socket.SHUT_RDWR)
        thread.join(NEVER_S)
