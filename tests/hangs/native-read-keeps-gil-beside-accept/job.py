import ctypes
import json
import multiprocessing as mp
import os
import socket
import subprocess
import threading


def say(event, pid=None, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class NativeReader:
    """Reads fixed frames from a decoder through libc, to save the copy into a bytes object."""

    def __init__(self, fd, size):
        self.lib = ctypes.PyDLL(None)
        self.fd, self.size = fd, size
        self.frame = ctypes.create_string_buffer(size)

    def read(self):
        done = 0
        while done < self.size:
            at = ctypes.byref(self.frame, done)
            n = self.lib.read(self.fd, at, self.size - done)  # CULPRIT
            if n <= 0:
                raise EOFError
            done += n
        return self.frame.raw


class DataServer:
    def __init__(self, sock):
        self.sock = sock
        self.latest = b""
        self.lock = threading.Lock()

    def fill(self):
        cmd = "i=0; while [ $i -lt 30000 ]; do printf 'frame-%06d' $i; i=$((i+1)); done; exec sleep 100000"
        proc = subprocess.Popen(["sh", "-c", cmd], stdout=subprocess.PIPE)
        say("role", proc.pid, role="process decoder")
        reader = NativeReader(proc.stdout.fileno(), 12)
        count = 0
        while True:
            if count == 30_000:
                say("culprit", thread=threading.current_thread().name)
                say("settled")
            frame = reader.read()
            count += 1
            with self.lock:
                self.latest = frame

    def session(self, conn):
        with conn:
            while conn.recv(1):
                with self.lock:
                    conn.sendall(self.latest.ljust(12, b"-"))

    def serve(self):
        say("role", role="process server")
        threading.Thread(target=self.fill, name="decoder", daemon=True).start()
        while True:
            conn, _ = self.sock.accept()
            threading.Thread(target=self.session, args=(conn,), daemon=True).start()


def trainer(k, address):
    say("role", role=f"process trainer {k}")
    say("waiter")
    with socket.create_connection(address) as s:
        while True:
            s.sendall(b"?")
            s.recv(12)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(8)
    ctx = mp.get_context("fork")
    jobs = [ctx.Process(target=DataServer(sock).serve)]
    jobs += [ctx.Process(target=trainer, args=(k, sock.getsockname())) for k in range(2)]
    for p in jobs:
        p.start()
    for p in jobs:
        p.join()


if __name__ == "__main__":
    main()
