"""A server whose reports run in a pool of threads and hand their queries to the same pool; health checks are answered."""

import asyncio
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2, thread_name_prefix="blocking")
both = threading.Barrier(2)


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def query(table):
    time.sleep(0.2)
    return table.upper()


def report(tables):
    both.wait()
    queries = [pool.submit(query, table) for table in tables]
    say("culprit", thread=threading.current_thread().name)
    say("settled")
    return " ".join(found.result() for found in queries)  # CULPRIT


async def answer(reader, writer):
    if (await reader.readline()).startswith(b"GET /report"):
        body = await asyncio.get_running_loop().run_in_executor(pool, report, ("sales", "stock"))
    else:
        body = "ok"
    writer.write(body.encode())
    writer.close()


async def ask(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path}\n".encode())
    return await reader.read()


async def check_health(port):
    while True:
        await ask(port, "/health")
        await asyncio.sleep(1)


async def main():
    say("root")
    say("role", role="main")
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    checks = asyncio.create_task(check_health(port))
    print(await asyncio.gather(ask(port, "/report"), ask(port, "/report")))
    checks.cancel()


asyncio.run(main())
