"""A service runs in an event loop of its own; the main thread waits for its end."""
import asyncio
import json
import os
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(line)


async def serve():
    await asyncio.start_server(answer, "127.0.0.1", 0)
    truth("settled")
    await asyncio.Event().wait()


def main():
    truth("root")
    truth("role", role="main")
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="service").start()
    asyncio.run_coroutine_threadsafe(serve(), loop).result()


if __name__ == "__main__":
    main()
