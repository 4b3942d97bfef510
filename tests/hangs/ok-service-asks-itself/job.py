"""A thread of an asynchronous service asks the service itself, which answers that in a coroutine, after a while."""

import asyncio
import json
import multiprocessing as mp
import os
import socket
from concurrent.futures import ThreadPoolExecutor


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def ask(address, question):
    with socket.create_connection(address) as connection:
        connection.sendall(f"{question}\n".encode())
        return connection.recv(1000).decode().strip()


class Service:
    def __init__(self):
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="answer")
        self.address = None

    def answer(self, question):
        say("settled")
        return ask(self.address, "part 1") + ask(self.address, "part 2")

    async def serve(self, reader, writer):
        question = (await reader.readline()).decode().strip()
        if question.startswith("part"):
            await asyncio.sleep(12)
            writer.write(question.encode())
        else:
            writer.write((await asyncio.get_running_loop().run_in_executor(self.pool, self.answer, question)).encode())
        await writer.drain()
        writer.close()

    async def run(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()
        for _ in range(2):
            mp.get_context("spawn").Process(target=client, args=(self.address,), daemon=True).start()
        await server.serve_forever()


def client(address):
    say("role", role="process client")
    while True:
        print(ask(address, "sum"))
        say("progress")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(Service().run())
