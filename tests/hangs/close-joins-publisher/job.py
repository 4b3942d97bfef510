import asyncio
import json
import multiprocessing as mp
import os
import queue
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")


def sink(conn):
    say("role", role="process sink")
    say("waiter")
    with open("messages.jsonl", "a") as f:
        while True:
            f.write(json.dumps(conn.recv()) + "\n")
            f.flush()


class Publisher:
    """sends what is put into the outbox; the connection belongs to the loop"""

    def __init__(self, loop, conn):
        self.loop, self.conn = loop, conn
        self.outbox = queue.Queue()
        self.thread = threading.Thread(target=self.work, name="publisher")
        self.thread.start()

    async def send(self, message):
        await asyncio.sleep(0.02)      # rate limit of the broker
        self.conn.send(message)

    def work(self):
        say("culprit", thread="publisher")
        while (message := self.outbox.get()) is not None:
            sent = asyncio.run_coroutine_threadsafe(self.send(message), self.loop)
            sent.result()  # CULPRIT

    async def aclose(self):
        self.outbox.put(None)
        say("culprit", thread="MainThread")
        say("settled")
        self.thread.join()  # CULPRIT
        self.conn.close()


async def app(conn):
    publisher = Publisher(asyncio.get_running_loop(), conn)
    for k in range(40):
        publisher.outbox.put({"temperature": 20 + k % 5, "k": k})
        await asyncio.sleep(0.01)
    await publisher.aclose()
    print("closed")


def main():
    say("root")
    say("role", role="main")
    ours, theirs = CTX.Pipe()
    CTX.Process(target=sink, args=(theirs,), daemon=True).start()
    asyncio.run(app(ours))


if __name__ == "__main__":
    main()
