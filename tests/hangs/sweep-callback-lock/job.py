import json
import multiprocessing as mp
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor, wait


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def trial(lr, seed):
    rng = random.Random(seed)
    time.sleep(0.2 + 0.1 * seed)
    return {"lr": lr, "loss": abs(lr - 0.03) + 0.01 * rng.random()}


def name_worker():
    say("role", role="pool worker " + mp.current_process().name.split("-")[-1])
    say("waiter")


class Sweep:
    def __init__(self, pool):
        self.pool, self.best, self.running = pool, None, {}
        import threading
        self.lock = threading.Lock()

    def on_done(self, future):
        with self.lock:  # CULPRIT
            result = future.result()
            self.running.pop(future, None)
            if self.best is None or result["loss"] < self.best["loss"]:
                self.best = result
                print("best so far", result, flush=True)

    def launch(self, rates):
        for i, lr in enumerate(rates):
            f = self.pool.submit(trial, lr, i)
            with self.lock:
                self.running[f] = lr
            f.add_done_callback(self.on_done)

    def finish(self):
        with self.lock:
            say("culprit", thread="MainThread")
            wait(list(self.running))  # CULPRIT
            return self.best


def main():
    say("root")
    say("role", role="main")
    with ProcessPoolExecutor(3, mp_context=mp.get_context("fork"), initializer=name_worker) as pool:
        sweep = Sweep(pool)
        sweep.launch([0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
        import threading
        name = next(t.name for t in threading.enumerate() if t is not threading.main_thread() and "Feeder" not in t.name)
        say("culprit", thread=name)
        threading.Timer(2, say, ["settled"]).start()
        print(sweep.finish())


if __name__ == "__main__":
    main()
