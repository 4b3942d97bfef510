"""Dumps from a debug server of torch: the front end of rank 0, or the worker server of one rank."""

from __future__ import annotations

import http.client
import os
import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from mpmon.probes.flight_recorder.asking import Endless, ask
from mpmon.probes.flight_recorder.dump import BadDump, Dump, merged, parse_dump
from mpmon.probes.flight_recorder.source import MOST_BYTES, CannotRead, Look

DEADLINE_S = 10.0
"""For one request to a server: connecting, asking, and receiving the whole answer."""

_HANDLERS = ("fr_trace_json", "dump_nccl_trace_json")
_PAGES = ("/fr_trace_json", "/fr_trace_nccl_json")
_BLOCK = re.compile(r"<h2>Rank ([0-9]{1,7}): [^<]*</h2>")
_FAILED = re.compile(r"Failed to fetch: status=([0-9]{3})")


class Server:
    """A front end, or the worker server of one rank."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._owner: int | None = None
        self._is_here = False

    @property
    def name(self) -> str:
        """Its address as the user wrote it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def read(self, look: Look) -> Iterator[Dump | CannotRead]:
        """The rows of every rank it knows."""
        try:
            status, body = self._ask("GET", "/handler/")
            handlers = _names(body) if status == http.client.OK else frozenset[str]()
            yield from self._worker(handlers, look) if handlers else self._front_end(look)
        except CannotRead as problem:
            yield problem

    def _worker(self, handlers: frozenset[str], look: Look) -> Iterator[Dump | CannotRead]:
        asked_at = look.now()
        texts = [self._ask("POST", f"/handler/{name}") for name in _HANDLERS if name in handlers]
        if self._owner not in look.pids:
            self._owner = listener(look, self.port) if self._is_here else None
        if self._owner is None:
            where = "no process of this job listens there" if self._is_here else "it runs on another machine"
            raise CannotRead(f"{self.name} is the server of one rank, and {where}; give the front end of rank 0")
        yield self._rows([body for status, body in texts if status == http.client.OK], None, self._owner, asked_at)

    def _front_end(self, look: Look) -> Iterator[Dump | CannotRead]:
        asked_at = look.now()
        texts: dict[int, list[bytes]] = defaultdict(list)
        failed: dict[int, str] = {}
        for page in _PAGES:
            status, body = self._ask("GET", page)
            if page == _PAGES[0] and (status != http.client.OK or b"<h2>Rank " not in body):
                raise CannotRead(f"{self.name} is not a torch debug server: it answered {status} to {page}")
            for rank, text, problem in blocks(body.decode("utf-8", "replace")):
                if text:
                    texts[rank].append(text.encode())
                elif page == _PAGES[0]:
                    failed[rank] = problem
        for rank in sorted({*texts, *failed}):
            if rank in texts:
                yield self._rows(texts[rank], rank, None, asked_at)
            else:
                yield CannotRead(f"{self.name}: rank {rank} did not answer it (status {failed[rank]})")

    def _rows(self, texts: list[bytes], rank: int | None, pid: int | None, asked_at: float) -> Dump | CannotRead:
        try:
            parsed = [parse_dump(text, rank=rank, pid=pid, read_at=asked_at) for text in texts]
        except BadDump as problem:
            return CannotRead(f"the answer of {self.name} {problem}")
        if not parsed:
            return CannotRead(f"{self.name} has no Flight Recorder")
        return merged(parsed)

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body.

        Raises:
            CannotRead: no answer in time, or too long a one.
        """
        try:
            answer = ask(self.host, self.port, method, path, seconds=DEADLINE_S, most=MOST_BYTES)
        except TimeoutError as problem:
            raise CannotRead(f"{self.name} did not answer within {DEADLINE_S:.0f} s") from problem
        except Endless as problem:
            raise CannotRead(f"{self.name} answered {problem}") from problem
        except (OSError, http.client.HTTPException, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or type(problem).__name__
            raise CannotRead(f"{self.name}: {reason}") from problem
        self._is_here = answer.is_here
        return answer.status, answer.body


def _names(body: bytes) -> frozenset[str]:
    """The handlers of a worker server; a front end has no such page."""
    try:
        return frozenset(msgspec.json.decode(body, type=list[str]))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return frozenset()


def blocks(page: str) -> Iterator[tuple[int, str, str]]:
    """Rank, JSON and, where that is empty, the status of each block of a front end's page."""
    parts = _BLOCK.split(page)
    for rank, block in zip(parts[1::2], parts[2::2], strict=True):
        failed = _FAILED.search(block[:200])
        # The page does not escape what it shows, so the last end tag is the one of the page.
        inside = block.partition("<pre>")[2].rpartition("</pre>")[0]
        yield int(rank), "" if failed else inside, failed.group(1) if failed else "?"


def listener(look: Look, port: int) -> int | None:
    """The process of the job that listens on a TCP port (proc_pid_net(5)); the topmost one, since its forks have it open too."""
    if _network(look, "self") != _network(look, look.pids[0] if look.pids else "self"):
        return None
    inodes = {inode for name in ("tcp", "tcp6") for inode in _listening(look, name, port)}
    for pid in look.pids if inodes else ():
        try:
            descriptors = os.listdir(look.proc.path(pid, "fd"))
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = look.proc.link(pid, "fd", descriptor)
            except OSError:
                continue
            if target in inodes:
                return pid
    return None


def _network(look: Look, pid: int | str) -> str | None:
    """The network namespace of a process: ports are per namespace (namespaces(7))."""
    try:
        return look.proc.link(pid, "ns", "net")
    except OSError:
        return None


def _listening(look: Look, name: str, port: int) -> Iterator[str]:
    try:
        table = look.proc.text(look.pids[0], "net", name, limit=1 << 22) if look.pids else ""
    except OSError:
        return
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
            yield f"socket:[{fields[9]}]"
