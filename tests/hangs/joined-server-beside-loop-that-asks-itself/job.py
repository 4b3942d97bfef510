import asyncio
import json
import multiprocessing as mp
import os
import socket
import time


def say(event, pid=None, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class Auth:
    def __init__(self, port, loop):
        self.port, self.loop = port, loop
        self.value, self.until = None, 0.0

    async def renew(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.value = (await reader.readline()).decode().strip()
        self.until = time.monotonic() + 3
        writer.close()

    def token(self):
        if time.monotonic() > self.until:
            asyncio.run_coroutine_threadsafe(self.renew(), self.loop).result()  # CULPRIT
        return self.value


class Gateway:
    def __init__(self, auth):
        self.auth = auth

    def sign(self, body):
        return f"{self.auth.token()}:{len(body)}"

    async def handle(self, reader, writer):
        loop = asyncio.get_running_loop()
        while line := await reader.readline():
            kind, _, body = line.decode().partition(" ")
            if kind == "bulk":
                out = await loop.run_in_executor(None, self.sign, body)
            else:
                if time.monotonic() > self.auth.until:
                    say("culprit", thread="MainThread")
                    say("settled")
                out = self.sign(body)
            writer.write(out.encode() + b"\n")
            await writer.drain()


async def gateway(sock, port):
    say("role", role="process <lambda>")
    auth = Auth(port, asyncio.get_running_loop())
    await auth.renew()
    server = await asyncio.start_server(Gateway(auth).handle, sock=sock)
    async with server:
        await server.serve_forever()


def issuer(sock):
    say("role", role="process issuer")
    say("waiter")
    for n in range(1_000_000):
        conn, _ = sock.accept()
        with conn:
            conn.sendall(f"token-{n}\n".encode())


def client(k, port, kind):
    say("role", role=f"process client {k}")
    say("waiter")
    with socket.create_connection(("127.0.0.1", port)) as s, s.makefile("rw") as f:
        while True:
            f.write(f"{kind} {'x' * 100}\n")
            f.flush()
            f.readline()
            time.sleep(0.02 if kind == "one" else 5)


def listen():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(16)
    return s, s.getsockname()[1]


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    (a, front), (b, back) = listen(), listen()
    jobs = [ctx.Process(target=issuer, args=(b,)), ctx.Process(target=lambda: asyncio.run(gateway(a, back)))]
    jobs += [ctx.Process(target=client, args=(k, front, kind)) for k, kind in enumerate(["one", "bulk", "one"])]
    for p in jobs:
        p.start()
    for p in jobs:
        p.join()


if __name__ == "__main__":
    main()
