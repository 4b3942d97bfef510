"""Painters share a canvas whose lock is a mutex of C between processes; the one that has it is killed."""
import ctypes
import json
import mmap
import multiprocessing as mp
import os
import signal
import time

LIBC = ctypes.CDLL(None, use_errno=True)
BETWEEN_PROCESSES = 1


def note(event, pid=0, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Canvas:
    def __init__(self):
        self.memory = mmap.mmap(-1, 1 << 16)
        self.mutex = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.memory)))
        kind = ctypes.create_string_buffer(64)
        LIBC.pthread_mutexattr_init(kind)
        LIBC.pthread_mutexattr_setpshared(kind, BETWEEN_PROCESSES)
        LIBC.pthread_mutex_init(self.mutex, kind)

    def paint(self, colour, seconds):
        LIBC.pthread_mutex_lock(self.mutex)
        self.memory[100] = colour
        time.sleep(seconds)
        LIBC.pthread_mutex_unlock(self.mutex)


def paint(colour, canvas, long_at):
    note("role", role=f"process painter-{colour}")
    for stroke in range(10_000):
        canvas.paint(colour, 60 if stroke == long_at else 0.01)
        time.sleep(0.02)


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    context = mp.get_context("fork")
    canvas = Canvas()
    painters = [context.Process(target=paint, args=(colour, canvas, 40 if colour == 1 else None)) for colour in range(3)]
    for painter in painters:
        painter.start()
    time.sleep(4)
    os.kill(painters[1].pid, signal.SIGKILL)
    note("culprit", pid=painters[1].pid, thread="MainThread", dead=True)
    note("settled")
    for painter in (painters[0], painters[2], painters[1]):
        painter.join()


if __name__ == "__main__":
    main()
