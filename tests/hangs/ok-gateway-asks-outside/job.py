"""A gateway answers over ZeroMQ by way of a server that is none of the job's, and slow."""

import json
import multiprocessing as mp
import os
import signal
import time

import zmq


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def outside(ports):
    """The process of another job, which ends by itself."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.alarm(60)
    replies = zmq.Context().socket(zmq.REP)
    port = replies.bind_to_random_port("tcp://127.0.0.1")
    os.write(ports, b"%d\n" % port)
    os.closerange(0, 3)
    os.close(ports)
    while True:
        request = replies.recv()
        time.sleep(12)
        replies.send(request)


def gateway(port, told):
    say("role", role="process gateway")
    context = zmq.Context()
    clients, server = context.socket(zmq.REP), context.socket(zmq.REQ)
    server.connect(f"tcp://127.0.0.1:{port}")
    told.send(clients.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        server.send(clients.recv())
        clients.send(server.recv())


def main():
    say("root")
    say("role", role="main")
    reads, writes = os.pipe()
    outside(writes)
    os.wait()
    os.close(writes)
    port = int(os.read(reads, 16))
    context = mp.get_context("spawn")
    told, tells = context.Pipe(duplex=False)
    context.Process(target=gateway, args=(port, tells), daemon=True).start()
    asks = zmq.Context().socket(zmq.REQ)
    asks.connect(f"tcp://127.0.0.1:{told.recv()}")
    say("settled")
    for number in range(4):
        asks.send(b"%d" % number)
        print(asks.recv(), flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
