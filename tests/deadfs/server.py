"""The server: `python -m tests.deadfs.server PLACE SOURCE KIND [PID]` mounts, says READY, and does as it is told.

A line on standard input is an order, and the same line on standard output says that it is done: `silent`, `swallow`, `answer`;
`swallowed` is said as soon as a request has been, and `askers` is followed by a line with all processes that have asked.
At the end of standard input it unmounts and ends, so nothing stays when whoever started it is gone.
With the pid of a process it mounts in the mount namespace of that process.

One thread, no file of its own below the mount point, no child: it can neither wait for itself nor leave /dev/fuse to somebody.
"""

from __future__ import annotations

import errno
import json
import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from tests.deadfs import protocol as fuse
from tests.deadfs.calls import enter_namespace, mount, unmount
from tests.deadfs.contents import FILES, ROOT, Node
from tests.deadfs.protocol import Request

WITHOUT_REPLY = {fuse.FORGET, fuse.BATCH_FORGET, fuse.INTERRUPT}
"""Requests that have no answer."""


class Server:
    """Answers, until it is told not to."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._swallowed: list[Request] = []
        self._mood = "answer"
        self._askers: dict[int, list[str]] = {}
        """Who has asked something: by pid its parent's pid and its name."""
        self._calls: dict[int, Callable[[Request, Node], bytes]] = {
            fuse.LOOKUP: self._lookup,
            fuse.GETATTR: self._attributes,
            fuse.SETATTR: self._attributes,
            fuse.MKNOD: self._make,
            fuse.UNLINK: self._remove,
            fuse.OPEN: self._open,
            fuse.OPENDIR: self._open,
            fuse.READ: self._read,
            fuse.READDIR: self._list,
            fuse.WRITE: self._write,
            fuse.STATFS: lambda request, node: fuse.reply(request, fuse.statistics()),
            **dict.fromkeys(
                (fuse.RELEASE, fuse.RELEASEDIR, fuse.FLUSH, fuse.FSYNC, fuse.DESTROY),
                lambda request, node: fuse.reply(request),
            ),
        }

    def serve(self) -> None:
        """Until standard input ends, or the file system is unmounted."""
        while True:
            wanted = [0] if self._mood == "silent" else [0, self._device]
            ready, _, _ = select.select(wanted, [], [])
            if 0 in ready:
                orders = os.read(0, 4096).decode().split()
                if not orders:
                    return
                for order in orders:
                    self._obey(order)
            elif self._device in ready and not self._take():
                return

    def _obey(self, order: str) -> None:
        if order == "swallowed":
            while not self._swallowed:
                select.select([self._device], [], [])
                self._take()
            os.write(1, b"swallowed\n")
            return
        if order == "askers":
            os.write(1, f"askers\n{json.dumps(self._askers)}\n".encode())
            return
        self._mood = order
        if order == "answer":
            late, self._swallowed = self._swallowed, []
            for request in late:
                self._answer(request)
        os.write(1, f"{order}\n".encode())

    def _take(self) -> bool:
        """One request; `False` when the file system is unmounted."""
        try:
            request = Request.parse(os.read(self._device, fuse.LONGEST_REQUEST))
        except OSError as problem:
            # The request was taken back meanwhile: fuse(4).
            return problem.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN)
        if request.opcode in WITHOUT_REPLY:
            return True
        self._note_asker(request.tid)
        if request.opcode == fuse.INIT:
            self._greet(request)
        elif self._mood == "swallow":
            self._swallowed.append(request)
        else:
            self._answer(request)
        return True

    def _note_asker(self, tid: int) -> None:
        """The process of a thread, which waits for the answer and so is there: proc_pid_status(5)."""
        with suppress(OSError):
            thread = status(tid)
            leader = status(int(thread["Tgid"]))
            self._askers[int(leader["Pid"])] = [leader["PPid"], leader["Name"]]

    def _answer(self, request: Request) -> None:
        node, call = FILES.get(request.node), self._calls.get(request.opcode)
        if node is None:
            text = fuse.reply(request, error=errno.ENOENT)
        elif call is None:
            text = fuse.reply(request, error=errno.ENOSYS)
        else:
            text = call(request, node)
        # Whoever asked may be gone: fuse(4).
        with suppress(FileNotFoundError):
            os.write(self._device, text)

    def _greet(self, request: Request) -> None:
        """Before that nobody's request is even sent."""
        os.write(self._device, fuse.reply(request, fuse.greeting(request)))
        os.write(1, b"READY\n")

    # The calls

    def _lookup(self, request: Request, node: Node) -> bytes:
        found = node.children.get(request.name())
        if found is None:
            return fuse.reply(request, error=errno.ENOENT)
        return fuse.reply(request, fuse.entry(found, FILES[found].attributes()))

    def _make(self, request: Request, node: Node) -> bytes:
        number = max(FILES) + 1
        FILES[number] = Node(number, request.mode())
        node.children[request.name()] = number
        return fuse.reply(request, fuse.entry(number, FILES[number].attributes()))

    def _remove(self, request: Request, node: Node) -> bytes:
        del node.children[request.name()]
        return fuse.reply(request)

    def _attributes(self, request: Request, node: Node) -> bytes:
        return fuse.reply(request, fuse.attribute_reply(node.attributes()))

    def _open(self, request: Request, node: Node) -> bytes:
        return fuse.reply(request, fuse.opened(fuse.DIRECT_IO if node.is_direct else 0))

    def _read(self, request: Request, node: Node) -> bytes:
        offset, size = request.span()
        return fuse.reply(request, bytes(node.content[offset : offset + size]))

    def _write(self, request: Request, node: Node) -> bytes:
        offset, size = request.span()
        node.content[offset : offset + size] = request.written()
        return fuse.reply(request, fuse.written(size))

    def _list(self, request: Request, node: Node) -> bytes:
        offset, size = request.span()
        text = b""
        names = [(".", node.number), ("..", ROOT), *node.children.items()]
        for following, (name, number) in list(enumerate(names, 1))[offset:]:
            item = fuse.directory_entry(number, following, stat.S_IFMT(FILES[number].mode) >> 12, name)
            if len(text) + len(item) > size:
                break
            text += item
        return fuse.reply(request, text)


def status(pid: int) -> dict[str, str]:
    """Its fields."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def main(place: str, source: str, kind: str, inside: str | None = None) -> None:
    """Mount, serve, unmount."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if inside:
        enter_namespace(int(inside))
    mount(place, source, kind, device)
    try:
        Server(device).serve()
    finally:
        # This ends every wait.
        os.close(device)
        with suppress(OSError):
            unmount(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
