import multiprocessing as mp
import socket
import struct
import time

from events import say
from serving import Server


def server_main(listener):
    say("role", role="process server")
    Server(listener).serve()


def client_main(k, port):
    say("role", role=f"process client-{k}")
    say("waiter")
    with socket.create_connection(("127.0.0.1", port)) as s:
        for i in range(1000):
            n = 5 if i == 40 + k else 8
            s.sendall(struct.pack(f"!i{n}d", n, *([1.0 + i] * n)))
            s.recv(8, socket.MSG_WAITALL)
            time.sleep(0.02)
            if i == 30:
                say("settled")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    listener = socket.create_server(("127.0.0.1", 0))
    ctx = mp.get_context("fork")
    ctx.Process(target=server_main, args=(listener,), daemon=True).start()
    clients = [ctx.Process(target=client_main, args=(k, listener.getsockname()[1])) for k in range(2)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()


if __name__ == "__main__":
    main()
