import json
import os
import queue
import threading
import time
from concurrent.futures import Future

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def model_main(inbox, outbox):
    emb = torch.nn.Embedding(1000, 64).to(DEV)
    head = torch.nn.Linear(64, 8).to(DEV)
    while True:
        tokens, span = inbox.get()
        with torch.inference_mode():
            pos = torch.arange(span, device=DEV)
            bias = (pos[:, None] - pos[None, :]).abs().float().mean() / span
            logits = head(emb(tokens).mean(1)) - bias
        outbox.put(logits.cpu())


class Batcher(threading.Thread):
    def __init__(self, inbox, outbox, max_batch=4):
        super().__init__(name="batcher", daemon=True)
        self.pending, self.inbox, self.outbox, self.max_batch = queue.Queue(), inbox, outbox, max_batch

    def submit(self, tokens, span):
        fut = Future()
        self.pending.put((tokens, span, fut))
        return fut

    def run(self):
        while True:
            work = [self.pending.get()]
            while len(work) < self.max_batch and not self.pending.empty():
                work.append(self.pending.get())
            batch = torch.stack([t for t, _, _ in work]).to(DEV)
            self.inbox.put((batch, max(s for _, s, _ in work)))
            logits = self.outbox.get()
            for (_, _, fut), row in zip(work, logits):
                fut.set_result(row)


def record(pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    truth("culprit", pid, dead=True)
    time.sleep(1)
    truth("settled")


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    inbox, outbox = ctx.Queue(), ctx.Queue()
    proc = ctx.Process(target=model_main, args=(inbox, outbox), daemon=True)
    proc.start()
    threading.Thread(target=record, args=(proc.pid,), daemon=True).start()
    batcher = Batcher(inbox, outbox)
    batcher.start()
    for i in range(1000):
        span = 1 << 25 if i == 12 else 128
        futs = [batcher.submit(torch.randint(1000, (128,)), span) for _ in range(3)]
        best = [f.result().argmax().item() for f in futs]
        print("request", i, best, flush=True)


if __name__ == "__main__":
    main()
