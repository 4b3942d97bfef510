import json
import os
import threading
import time

import torch
import torch.multiprocessing as mp

DEV = "cuda" if torch.cuda.is_available() else "cpu"


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode()); os.close(fd)

def trial(number, lr, slot, reports):
    torch.manual_seed(number)
    with slot:
        x = torch.randn(512, 64, device=DEV)
        y = x.sin().sum(1, keepdim=True)
        net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).to(DEV)
        opt = torch.optim.SGD(net.parameters(), lr=lr)
        for step in range(1, 2001):
            loss = torch.nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.005)
            if step % 200 == 0:
                reports.put((number, step, loss.item()))


def main():
    truth("root")
    ctx = mp.get_context("spawn")
    slot, reports = ctx.Semaphore(1), ctx.Queue()
    rates = [50.0, 0.01, 0.001]
    trials = {}
    for number, lr in enumerate(rates):
        trials[number] = ctx.Process(target=trial, args=(number, lr, slot, reports), daemon=True)
        trials[number].start()
        if number == 0:
            first = reports.get()
            print("first report", first, flush=True)

    scores = {}
    while len(scores) < len(rates):
        number, step, loss = reports.get()
        print("trial", number, "step", step, "loss", loss, flush=True)
        if not loss < 10.0 and number not in scores:
            scores[number] = float("inf")
            trials[number].terminate()
            trials[number].join()
            truth("culprit", trials[number].pid, dead=True)
            threading.Timer(8, truth, args=("settled",)).start()
        elif step == 2000:
            scores[number] = loss
            trials[number].join()
    print("best", min(scores, key=scores.get))


if __name__ == "__main__":
    main()
