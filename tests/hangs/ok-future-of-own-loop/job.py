import asyncio
import json
import multiprocessing as mp
import os
import socket
import threading
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

WORLD, CHUNKS = 2, 16


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

async def send_shard(reader, writer):
    key = (await reader.readline()).decode().strip()
    for chunk in range(CHUNKS):
        if key.startswith("train/1"):
            await asyncio.sleep(1.0)
        writer.write(key.encode().ljust(64, b"."))
        await writer.drain()
    writer.close()


def store(sock):
    async def run():
        async with await asyncio.start_server(send_shard, sock=sock) as server:
            await server.serve_forever()

    say("role", role="process store")
    asyncio.run(run())


class Bucket:
    def __init__(self, port):
        self.port, self.loop, self.pid = port, None, 0

    def call(self, coroutine):
        if self.pid != os.getpid():
            self.loop, self.pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=self.loop.run_forever, name="bucket-loop", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def read(self, key):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{key}\n".encode())
        data = b""
        while chunk := await reader.read(64):
            data += chunk
            say("progress")
        writer.close()
        return data


class Shards(Dataset):
    def __init__(self, rank, port):
        self.rank, self.bucket = rank, Bucket(port)

    def __len__(self):
        return 100000

    def __getitem__(self, i):
        data = self.bucket.call(self.bucket.read(f"train/{self.rank}/{i:06d}"))
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).float().mean()


def train(rank, port, bucket_port):
    say("role", role=f"rank {rank}")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD,
                            timeout=timedelta(hours=1))
    mean = torch.zeros(1)
    loader = DataLoader(Shards(rank, bucket_port), batch_size=1, num_workers=1, multiprocessing_context="fork",
                        worker_init_fn=lambda k: say("role", role=f"dataloader worker {k} of rank {rank}"))
    if rank == 1:
        say("settled")
    for x in loader:
        mean += x.mean()
        dist.all_reduce(mean)


def main():
    say("root")
    say("role", role="main")
    sock = socket.create_server(("127.0.0.1", 0))
    ctx, port = mp.get_context("fork"), free_port()
    ctx.Process(target=store, args=(sock,), daemon=True).start()
    ranks = [ctx.Process(target=train, args=(r, port, sock.getsockname()[1])) for r in range(WORLD)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()


if __name__ == "__main__":
    main()
