import io
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"
TARGET = "/mnt/checkpoints-bucket"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def uploader(conn):
    while True:
        step, part, blob = conn.recv()
        if part == 0 and not os.path.ismount(TARGET):
            truth("culprit")
            threading.Timer(8, truth, args=("settled",)).start()
        while not os.path.ismount(TARGET):
            time.sleep(1)  # CULPRIT
        with open(os.path.join(TARGET, f"{step:06d}.{part:03d}"), "wb") as f:
            f.write(blob)


class AsyncCheckpoint:
    def __init__(self, conn):
        self.conn, self.pool, self.pending = conn, ThreadPoolExecutor(1, "ckpt"), None
        self.stream = torch.cuda.Stream() if DEV == "cuda" else None

    def save(self, step, state):
        if self.pending is not None:
            self.pending.result()
        if self.stream is None:
            host = {k: v.clone() for k, v in state.items()}
        else:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                host = {k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True) for k, v in state.items()}
                for k, v in state.items():
                    host[k].copy_(v, non_blocking=True)
            self.stream.synchronize()
        self.pending = self.pool.submit(self.write, step, host)

    def write(self, step, host, chunk=1 << 20):
        buf = io.BytesIO()
        torch.save(host, buf)
        view = buf.getbuffer()
        for part, start in enumerate(range(0, len(view), chunk)):
            self.conn.send((step, part, bytes(view[start:start + chunk])))


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    conn, child = ctx.Pipe()
    ctx.Process(target=uploader, args=(child,), daemon=True).start()
    ckpt = AsyncCheckpoint(conn)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).to(DEV)
    opt = torch.optim.Adam(model.parameters())
    for step in range(1, 100_000):
        x = torch.randn(64, 512, device=DEV)
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print("step", step, loss.item(), flush=True)
            ckpt.save(step, model.state_dict())


if __name__ == "__main__":
    main()
