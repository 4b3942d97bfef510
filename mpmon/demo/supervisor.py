"""Runs a scene for mpmon and ends all of it when mpmon ends: by closing, by Ctrl-C, by `kill -9`.

Its standard input is the read end of a pipe whose write end mpmon alone holds, so end of file there means that mpmon is gone.
It is a *subreaper* (PR_SET_CHILD_SUBREAPER(2const)): whatever the scene orphans becomes its child, so nothing escapes. It
runs in its own session, where the terminal's Ctrl-C does not reach it. Events are reported on standard output, one JSON
object per line: `started`, `ready`, `ended`.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mpmon import start
from mpmon.demo import handshake
from mpmon.demo.processes import descendants, kill, mapped_shared_inodes, shared_names

PR_SET_CHILD_SUBREAPER = 36
"""<linux/prctl.h>."""
LOOK_EVERY_MS = 200
GIVE_UP_AFTER = 500
"""Looks, a hundredth of a second apart: a process in uninterruptible sleep does not even take SIGKILL, and nobody should wait
for it for ever.  Not seconds: on a suspended or overloaded machine, killed processes may get no CPU to exit for that long.
"""

LONGEST_TEMPORARY_FOLDER = 107 - len("/mpmon-demo-xxxxxxxx/pymp-xxxxxxxx/listener-xxxxxxxx")
"""unix(7): the name of a socket has 107 bytes."""


def tell(event: str, **facts: object) -> None:
    """Send one line to mpmon; if mpmon is gone, standard input will reach end of file."""
    line = json.dumps({"event": event, **facts}) + "\n"
    try:
        os.write(sys.stdout.fileno(), line.encode())
    except BrokenPipeError:
        return


class Supervisor:
    """One scene and its processes."""

    def __init__(self, module: str, folder: Path) -> None:
        self.module = module
        self.log = folder / "log"
        self.parent = os.getppid()
        self.there_before = frozenset(shared_names())
        self.shared: set[int] = set()
        pipe = folder / "ready"
        os.mkfifo(pipe)
        # Opened for both directions it never reports end of file between two writers (fifo(7)).
        self.ready = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self.job = self._start(pipe)

    def _start(self, pipe: Path) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            job = subprocess.Popen(
                start.command(self.module),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # TMPDIR: what torch and multiprocessing leave there is removed with the folder.
                env={**os.environ, handshake.READY_VARIABLE: str(pipe), "TMPDIR": str(pipe.parent)},
            )
        tell("started", pid=job.pid, log=str(self.log))
        return job

    def watch(self) -> None:
        """Watch the scene until mpmon is gone."""
        poller = select.poll()
        poller.register(sys.stdin.fileno(), select.POLLIN)
        poller.register(self.ready, select.POLLIN)
        running = True
        while os.getppid() == self.parent:
            events = dict(poller.poll(LOOK_EVERY_MS))
            if sys.stdin.fileno() in events:
                return
            if self.ready in events:
                poller.unregister(self.ready)
                self.hangs()
            if running and self.job.poll() is not None:
                running = False
                tell("ended", status=self.job.returncode)
            self.reap_orphans()

    def hangs(self) -> None:
        """The scene says that its hang is established."""
        self.note_shared_files()
        tell("ready", with_torch=os.read(self.ready, 64).startswith(handshake.WITH_TORCH))

    def note_shared_files(self) -> None:
        """What the scene's processes have mapped of /dev/shm."""
        for process in descendants(os.getpid()):
            self.shared |= mapped_shared_inodes(process.pid)

    def remove_shared_files(self) -> None:
        """The names in /dev/shm that are new and that the scene's own processes had mapped."""
        for name, inode in shared_names().items():
            if name not in self.there_before and inode in self.shared:
                Path(name).unlink(missing_ok=True)

    def reap_orphans(self) -> None:
        """Reap adopted zombies; the scene's own process is reaped by `Popen`."""
        while self.job.returncode is not None:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return

    def end(self) -> None:
        """Kill, reap and look again until nothing is left, then remove what is left in /dev/shm."""
        for _ in range(GIVE_UP_AFTER):
            if not (left := descendants(os.getpid())):
                break
            self.note_shared_files()
            for process in left:
                kill(process)
            self.job.poll()
            self.reap_orphans()
            time.sleep(0.01)
        self.remove_shared_files()


def adopt_orphans() -> None:
    """Become the parent of whatever a descendant leaves behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def temporary_folder() -> str:
    """Where temporary files go, unless multiprocessing's sockets would get too long names there (unix(7))."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_TEMPORARY_FOLDER else "/tmp"


def end_politely(_signal: int, _frame: object) -> None:
    """Leave through the `finally` blocks."""
    sys.exit(1)


def main(module: str) -> None:
    """Run the scene until mpmon is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_politely)  # handlers, unlike SIG_IGN, are not inherited by the scene (execve(2))
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="mpmon-demo-", dir=temporary_folder()) as folder:
        supervisor = Supervisor(module, Path(folder))
        try:
            supervisor.watch()
        finally:
            supervisor.end()


if __name__ == "__main__":
    main(sys.argv[1])
