import json
import multiprocessing as mp
import os
import socket
import threading
import time
from concurrent.futures import ProcessPoolExecutor

ctx = mp.get_context("fork")

def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def match(parcel):
    return sum(map(ord, parcel)) % 12


class Journal:
    def __init__(self):
        self.cond, self.lines = threading.Condition(), []
        threading.Thread(target=self.write, name="journal", daemon=True).start()

    def add(self, line):
        with self.cond:
            self.lines.append(line)
            self.cond.notify()

    def write(self):
        with open("journal.txt", "a") as f:
            while True:
                with self.cond:
                    self.cond.wait_for(lambda: self.lines)
                    todo, self.lines = self.lines, []
                f.writelines(x + "\n" for x in todo)
                f.flush()


def depot(listener):
    say("role", role="process depot")
    journal = Journal()
    pool = ProcessPoolExecutor(2, mp_context=ctx)

    def gate(conn):
        with conn, conn.makefile("rw") as f:
            for line in f:
                ramp = pool.submit(match, line.strip()).result()
                journal.add(f"{line.strip()} -> ramp {ramp}")
                f.write(f"{ramp}\n")
                f.flush()

    while True:
        conn, _ = listener.accept()
        threading.Thread(target=gate, args=(conn,), name="gate", daemon=True).start()


def driver(port, shift):
    say("role", role="process driver")
    with socket.create_connection(("127.0.0.1", port)) as s, s.makefile("rw") as f:
        for n in range(1_000_000):
            f.write(f"parcel-{n}\n")
            f.flush()
            f.readline()
            say("progress", n=n)
            if n == 0:
                say("settled")
            shift.wait(5.0)


def main():
    say("root")
    say("role", role="main")
    listener = socket.create_server(("127.0.0.1", 0))
    shift = ctx.Event()
    kids = [ctx.Process(target=depot, args=(listener,)),
            ctx.Process(target=driver, args=(listener.getsockname()[1], shift))]
    for p in kids:
        p.start()
    for p in kids:
        p.join()


if __name__ == "__main__":
    main()
