"""Rank 1 forks a process that writes its log, and is killed, as by a lack of memory. Rank 0 waits in an all-reduce."""
import json, os, signal, socket, subprocess, sys, time
import multiprocessing as mp

import torch
import torch.distributed as dist


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def write_log(lines):
    while True:
        lines.get()


def train(rank):
    truth("role", role=f"rank {rank}")
    dist.init_process_group("gloo")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights, gradient = torch.ones(128 << 20, device=device), torch.ones(1 << 20, device=device)
    lines = mp.get_context("fork").Queue()
    if rank == 1:
        mp.get_context("fork").Process(target=write_log, args=(lines,), daemon=True).start()
    for step in range(1000):
        dist.all_reduce(gradient)
        weights += gradient.mean()
        lines.put(f"step {step}") if rank == 1 else None
        if step == 5 and rank == 1:
            time.sleep(2)
            truth("culprit", dead=True)
            truth("settled")
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    truth("root")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(2):
        own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": "0"}
        ranks.append(subprocess.Popen([sys.executable, "job.py", "train"], env={**os.environ, **own}))
    ranks[0].wait()
    ranks[1].wait()


if __name__ == "__main__":
    train(int(os.environ["RANK"])) if sys.argv[1:] else main()
