"""Fleet check: probes devices over sockets with a deadline each, writes a table, exits. A driver runs it in a loop."""
import asyncio
import json
import multiprocessing as mp
import os
import socket
import time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def device(listener, quiet_after):
    """Answers its status; the firmware stops to answer after some requests but keeps the connection."""
    truth("role", role="process device")
    served = 0
    while True:
        conn, _ = listener.accept()
        request = conn.recv(64)
        served += 1
        if served > quiet_after:
            truth("culprit", thread="MainThread")
            conn.recv(64)                                       # CULPRIT
        else:
            conn.sendall(b"OK temp=41 load=%d\n" % len(request))
        conn.close()


class Probe:
    """The vendor's library is blocking, so that it is called in a thread."""

    def __init__(self, address):
        self.address = address

    def status(self):
        with socket.create_connection(self.address) as s:
            s.sendall(b"STATUS\n")
            return s.recv(256).decode().strip()                 # CULPRIT

    async def run(self, deadline):
        try:
            return await asyncio.wait_for(asyncio.to_thread(self.status), deadline)
        except TimeoutError:
            return "no answer"


class Check:
    def __init__(self, addresses):
        self.probes = [Probe(a) for a in addresses]
        self.table = {}

    async def run(self):
        answers = await asyncio.gather(*(p.run(deadline=1.0) for p in self.probes))
        for p, a in zip(self.probes, answers):
            self.table[p.address[1]] = a
        if "no answer" in answers:
            truth("culprit", thread="asyncio_%d" % answers.index("no answer"))
            truth("settled")
        return self.table


def check_once(addresses, path):
    truth("role", role="process check")
    table = asyncio.run(Check(addresses).run())
    with open(path, "w") as f:
        json.dump(table, f)


class Driver:
    def __init__(self, folder):
        self.ctx = mp.get_context("fork")
        self.folder, self.addresses = folder, []

    def add_device(self, quiet_after):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addresses.append(listener.getsockname())
        self.ctx.Process(target=device, args=(listener, quiet_after), daemon=True).start()
        listener.close()

    def forever(self):
        for k in range(10 ** 9):
            p = self.ctx.Process(target=check_once, args=(self.addresses, os.path.join(self.folder, f"check-{k}.json")))
            p.start()
            p.join()
            truth("progress")
            time.sleep(0.2)


def main():
    truth("root")
    truth("role", role="main")
    truth("waiter")
    d = Driver(os.path.dirname(os.path.abspath(__file__)))
    d.add_device(quiet_after=4)
    d.add_device(quiet_after=10 ** 9)
    d.forever()


if __name__ == "__main__":
    main()
