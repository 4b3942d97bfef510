"""Sequence numbers of collectives, where a Flight Recorder can be read as JSON: only where the user named a source.

Three kinds of source, told apart by their form: a JSON file of one rank, a folder of such files, and a debug server of torch
(`torch.distributed.debug.start_debug_server`).  Pickles are never loaded: loading one can run any code.

A debug server is one of two kinds, and reports which (torch/distributed/debug/_frontend.py,
torch/csrc/distributed/c10d/control_plane/WorkerServer.cpp, torch 2.13):

- The front end, started by rank 0: `GET /fr_trace_json` is a page with one block per rank, headed `Rank N: ADDRESS`.  The
  front end asks all ranks for it, and answers when the last one has, or after its own time limit of a minute.
- The worker server, one in each rank: `GET /handler/` lists its handlers, `POST /handler/fr_trace_json` is the dump; it
  does not name its rank, so the process that listens on that port is looked up.  A C++ thread that does not need the GIL
  answers.

`fr_trace_json` covers the CPU groups (gloo); those of NCCL are in `dump_nccl_trace_json`.

Sources are read in a separate thread: at the start, when ranks have stopped running since the last reading, and every 30 s
for their rates of collectives. The pause is at least twenty times as long as a reading took, and the screen never waits.

Modules: `dump` turns one rank's JSON into rows, `files` and `servers` obtain it, the latter through `asking`, `reader` is the
thread, `source` is what they share.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from urllib.parse import urlsplit

from mpmon.errors import UsageError
from mpmon.probes.files import Proc
from mpmon.probes.flight_recorder.files import File, Folder, kind_of
from mpmon.probes.flight_recorder.reader import FlightRecorder, Reading, read_all
from mpmon.probes.flight_recorder.servers import Server
from mpmon.probes.flight_recorder.source import REMEDY, Look, Source

__all__ = ["FlightRecorder", "Look", "Reading", "read_all", "sources"]


def sources(words: Iterable[str], proc: Proc | None = None) -> tuple[Source, ...]:
    """The sources the user named; files are read by the helper of `proc`, if it has one, since their file server may be dead.

    Raises:
        UsageError: it is none of the three kinds.
    """
    return tuple(_source(word, proc or Proc()) for word in words)


def _source(word: str, proc: Proc) -> Source:
    if "://" in word:
        return _server(word)
    try:
        mode = kind_of(proc, os.path.abspath(word))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not a file name"
        raise UsageError(f"the flight recorder {word!r} cannot be read: {reason}.", REMEDY) from problem
    found = Folder(word, proc) if stat.S_ISDIR(mode) else File(word, proc)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise UsageError(f"the flight recorder {word!r} is neither a file nor a folder.", REMEDY)
    found.check()
    return found


def _server(word: str) -> Source:
    remedy = "Give it as http://HOST:PORT, for example http://localhost:25999."
    try:
        parts = urlsplit(word)
        port = parts.port
    except ValueError as problem:
        raise UsageError(f"{word!r} is not the address of a debug server.", remedy) from problem
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    # Text that does not print cannot be a host name either.
    is_name = parts.hostname and parts.hostname.isprintable() and " " not in parts.hostname
    if parts.scheme != "http" or not parts.hostname or not is_name or not port or more:
        raise UsageError(f"{word!r} is not the address of a debug server.", remedy)
    return Server(parts.hostname, port)
