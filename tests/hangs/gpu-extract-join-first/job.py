import io
import json
import os
import threading

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"
SHARDS = 3


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def extract(shard, out, left):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten()
    ).to(DEV).eval()
    for i in range(8):
        batch = torch.randn(32, 3, 64, 64).to(DEV, non_blocking=True)
        with torch.inference_mode():
            feats = net(batch)
        buf = io.BytesIO()
        torch.save(feats.cpu(), buf)
        out.put((shard, i, buf.getvalue()))
    with left.get_lock():
        left.value -= 1
        last = left.value == 0
    if last:
        threading.Timer(3, truth, args=("settled",)).start()


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    out, left = ctx.Queue(), ctx.Value("i", SHARDS)
    procs = [ctx.Process(target=extract, args=(s, out, left)) for s in range(SHARDS)]
    for p in procs:
        p.start()
    truth("culprit")
    for p in procs:
        p.join()  # CULPRIT

    parts = {}
    while not out.empty():
        shard, i, blob = out.get()
        parts[shard, i] = torch.load(io.BytesIO(blob))
    feats = torch.cat([parts[k] for k in sorted(parts)]).to(DEV)
    feats = feats - feats.mean(0)
    _, s, _ = torch.pca_lowrank(feats, q=16)
    print("singular values", s.tolist())


if __name__ == "__main__":
    main()
