"""The threads of one snapshot: their stacks, what the kernel says of them, and their names."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from mpmon.diagnosis.libraries import RANK_THREADS
from mpmon.diagnosis.libraries.torch_data import LOADER_PROCESS
from mpmon.diagnosis.stacks.natives import NativeFact
from mpmon.diagnosis.state import joins
from mpmon.diagnosis.state.history import ThreadHistory, ThreadKey
from mpmon.diagnosis.state.process_index import ProcessIndex
from mpmon.model import Blocked, Stack, Thread

STORE_THREAD = "pt_tcpstore_uv"
"""The thread of a TCPStore's server (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp)."""

RPC_THREADS = "TP_"
"""Prefix of the names of TensorPipe's threads, the transport of torch.distributed.rpc."""


class ThreadIndex(ProcessIndex):
    """Its threads."""

    @cached_property
    def stacks(self) -> dict[ThreadKey, Stack]:
        """Stacks by thread, of those that are in Python code.

        A thread of a library that has called Python once, as autograd's for a GPU, keeps a thread state without frames.
        """
        return self.memory.same("stacks", joins.in_python, self.snapshot.stacks)

    @cached_property
    def native_facts(self) -> dict[ThreadKey, NativeFact]:
        """What the C and C++ frames of sleeping threads tell, as far as they were read."""
        return {key: fact for key, fact in self.native_hints.items() if not fact.sampled}

    @cached_property
    def native_hints(self) -> dict[ThreadKey, NativeFact]:
        """The same, and hints from those of running threads: no wait may rest on where a thread is at one moment."""
        return self.memory.same("native facts", joins.native_facts, self.snapshot.native_stacks)

    @cached_property
    def blocked(self) -> dict[ThreadKey, Blocked]:
        """What the kernel says, by thread."""
        return self.memory.same("blocked", joins.by_thread, self.snapshot.blocked)

    def thread_history(self, key: ThreadKey) -> ThreadHistory | None:
        """What is remembered of a thread."""
        return self.history.pasts.get(key)

    def threads(self, pid: int) -> list[ThreadKey]:
        """The Python threads of a process; only the main thread where there is no stack."""
        return self._python_threads.get(pid) or [(pid, pid)]

    def has_frames(self, pid: int) -> bool:
        """Whether frames of its threads were read."""
        return pid in self._python_threads

    @cached_property
    def _python_threads(self) -> dict[int, list[ThreadKey]]:
        return self.memory.same("python threads", joins.threads_by_pid, self.snapshot.stacks)

    @cached_property
    def _threads_of(self) -> dict[int, list[Thread]]:
        found: dict[int, list[Thread]] = defaultdict(list)
        for row in self.snapshot.threads:
            found[row.pid].append(row)
        return found

    def all_threads(self, pid: int) -> list[ThreadKey]:
        """The threads of a process, of Python or not."""
        return [(pid, row.tid) for row in self._threads_of.get(pid, ())]

    def natives(self, pid: int) -> tuple[ThreadKey, ...]:
        """Its threads without Python frames; every call returns the same tuple."""
        return self._natives.get(pid, ())

    @cached_property
    def _natives(self) -> dict[int, tuple[ThreadKey, ...]]:
        found = {pid: tuple(key for key in self.all_threads(pid) if key not in self.stacks) for pid in self._threads_of}
        return {pid: keys for pid, keys in found.items() if keys}

    def by_ident(self, pid: int, ident: int | None) -> ThreadKey:
        """The thread with that `threading.get_ident()`; the main thread if it is unknown."""
        for key in self.threads(pid):
            if ident is not None and key in self.stacks and self.stacks[key].ident == ident:
                return key
        return pid, pid

    def thread_name(self, key: ThreadKey) -> str:
        """Python's name for a thread."""
        stack = self.stacks.get(key)
        if stack and stack.thread_name:
            return stack.thread_name
        return "MainThread" if key[0] == key[1] else f"thread {key[1]}"

    def thread_words(self, key: ThreadKey) -> str:
        """The same in a sentence: `thread writer`, `thread 4711` if Python does not know it."""
        name = self.thread_name(key)
        return name if name == f"thread {key[1]}" else f"thread {name}"

    @cached_property
    def in_rpc(self) -> frozenset[int]:
        """Processes connected by torch.distributed.rpc."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name.startswith(RPC_THREADS))

    @cached_property
    def in_process_group(self) -> frozenset[int]:
        """Processes that are members of a process group, by the names of their threads."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name in RANK_THREADS)

    @cached_property
    def store_servers(self) -> frozenset[int]:
        """Processes with the thread of a TCPStore's server (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp)."""
        return frozenset(row.pid for row in self.snapshot.threads if row.name == STORE_THREAD)

    @cached_property
    def store_ends(self) -> frozenset[str]:
        """Their ends of connections: what these threads listen on."""
        threads = ((row.pid, row.tid) for row in self.snapshot.threads if row.name == STORE_THREAD)
        rows = (self.blocked.get(key) for key in threads)
        return frozenset(name for row in rows if row for name in row.waits_on)

    def is_forked(self, pid: int) -> bool:
        """A child made by fork alone: the kernel says so; else it has its parent's command line, and is no spawn
        helper.

        A child of a fork server has none of the job's state, unless a module that the server preloaded has started
        threads.
        """
        process = self.processes.get(pid)
        parent = self.processes.get(process.ppid) if process else None
        if process is None or parent is None or process.cmdline is None:
            return False
        if process.forked is not None:
            return process.forked and (self.role(parent.pid).kind != "forkserver" or len(self.threads(parent.pid)) > 1)
        spawned = any("--multiprocessing-fork" in word for word in process.cmdline)
        return not spawned and (process.cmdline == parent.cmdline or process.name == LOADER_PROCESS)
