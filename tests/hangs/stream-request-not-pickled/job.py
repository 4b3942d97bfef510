"""Text generation: asyncio gateway -> tokenizer process -> model process -> gateway."""
import asyncio
import json
import multiprocessing as mp
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Optional


def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

@dataclass
class Request:
    number: int
    text: str
    stream: bool = False


@dataclass
class Job:
    number: int
    ids: list
    on_token: Optional[Callable] = None


class Vocabulary:
    def __init__(self):
        self.ids = {}

    def encode(self, text):
        return [self.ids.setdefault(w, len(self.ids)) for w in text.split()]


def tokenizer(inbox, jobs, results):
    say("role", role="process tokenizer")
    vocabulary = Vocabulary()
    for request in iter(inbox.get, None):
        ids = vocabulary.encode(request.text)
        if request.stream:
            def on_token(token):
                results.put((request.number, [token]))
            jobs.put(Job(request.number, ids, on_token))
            say("culprit", thread="MainThread")
        else:
            jobs.put(Job(request.number, ids))


def generate(ids, n=16):
    state = sum(ids)
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        yield state % 50_000


def model(jobs, results):
    say("role", role="process model")
    say("waiter")
    for job in iter(jobs.get, None):
        tokens = []
        for token in generate(job.ids):
            tokens.append(token)
            if job.on_token:
                job.on_token(token)
        results.put((job.number, tokens))


class Gateway:
    def __init__(self, inbox, results):
        self.inbox, self.results = inbox, results
        self.waiting = {}
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="results")

    async def pump(self):
        loop = asyncio.get_running_loop()
        while True:
            number, tokens = await loop.run_in_executor(self.pool, self.results.get)
            self.waiting.pop(number).set_result(tokens)

    async def complete(self, request):
        answer = asyncio.get_running_loop().create_future()
        self.waiting[request.number] = answer
        self.inbox.put(request)
        return await answer

    async def serve(self, requests):
        pump = asyncio.create_task(self.pump())
        for request in requests:
            if request.stream:
                asyncio.get_running_loop().call_later(1.5, say, "settled")
            tokens = await self.complete(request)
            print(request.number, len(tokens), "tokens", flush=True)
        pump.cancel()


def incoming():
    """What the benchmark replays; the twelfth client asks for streaming."""
    for n in range(1000):
        yield Request(n, f"please continue the sentence number {n}", stream=n == 12)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    inbox, jobs, results = ctx.Queue(), ctx.Queue(), ctx.Queue()
    ctx.Process(target=tokenizer, args=(inbox, jobs, results), name="tokenizer", daemon=True).start()
    ctx.Process(target=model, args=(jobs, results), name="model", daemon=True).start()
    asyncio.run(Gateway(inbox, results).serve(incoming()))


if __name__ == "__main__":
    main()
