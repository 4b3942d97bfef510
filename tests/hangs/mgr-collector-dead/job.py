import json, os, threading, time
import multiprocessing as mp


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Table:
    def __init__(self):
        self.best, self.rows = {}, 0

    def add(self, result):
        name = result["policy"]
        self.best[name] = max(self.best.get(name, 0.0), result["return"] / result["episodes"])
        self.rows += 1


class Collector:
    def __init__(self, results):
        self.results, self.table = results, Table()
        self.thread = threading.Thread(target=self.run, name="collector", daemon=True)

    def run(self):
        while True:
            result = self.results.get()
            if result is None:
                return
            self.table.add(result)


def rollout(policy, seed):
    total = 0.0
    for t in range(300):
        total += ((seed * 31 + t * 17) % 100) / 100
    episodes = 0 if seed % 997 == 77 else 3
    return {"policy": policy, "return": total, "episodes": episodes}


def simulator(k, results):
    truth("role", role=f"process simulator {k}")
    truth("waiter")
    for seed in range(k * 1000, k * 1000 + 900):
        results.put(rollout(f"policy-{k}", seed))
        time.sleep(0.01)


def main():
    truth("root")
    truth("role", role="main")
    ctx = mp.get_context("fork")
    manager = ctx.Manager()
    truth("role", manager._process.pid, role="process manager")
    results = manager.Queue(maxsize=6)
    collector = Collector(results)
    collector.thread.start()
    sims = [ctx.Process(target=simulator, args=(k, results)) for k in range(3)]
    for p in sims:
        p.start()
    truth("culprit", thread="MainThread")
    threading.Timer(4, truth, ("settled",)).start()
    for p in sims:
        p.join()  # CULPRIT
    results.put(None)
    collector.thread.join()
    print(collector.table.best)


if __name__ == "__main__":
    main()
