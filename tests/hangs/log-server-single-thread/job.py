import json
import multiprocessing as mp
import os
import socket
import socketserver
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Records(socketserver.StreamRequestHandler):
    """Lines of one worker, until it hangs up."""

    def handle(self):


        for line in self.rfile:  # CULPRIT
            print(len(line), file=open(os.devnull, "w"))


def simulate(number, address, connected, barrier):
    say("role", role=f"process sim-{number}")
    if number == 1:
        connected.wait()
    log = socket.create_connection(address)
    log.sendall(b"began\n")
    connected.set()
    for step in range(2):
        if number == 1:
            say("settled")

            log.sendall(b"a long record\n" * 1_000_000)
        else:
            log.sendall(b"a record\n")
        # All go on together.
        barrier.wait()


def main():
    say("root"), say("role", role="main"), say("culprit", thread="log-server")
    server = socketserver.TCPServer(("127.0.0.1", 0), Records)
    threading.Thread(target=server.serve_forever, name="log-server", daemon=True).start()
    ctx = mp.get_context("fork")
    rest = server.server_address, ctx.Event(), ctx.Barrier(2)
    processes = [ctx.Process(target=simulate, args=(number, *rest)) for number in range(2)]
    for process in processes:

        process.start()
    for process in processes:
        # Until the simulation is over.
        process.join()


if __name__ == "__main__":
    main()
