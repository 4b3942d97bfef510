import json, os, time
import multiprocessing as mp

WORKERS = 4


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Graph:
    def __init__(self, n):
        self.n = n

    def neighbours(self, v):
        return [(v * 3 + 1) % self.n, (v * 7 + 5) % self.n, (v + 1) % self.n]

    def part(self, k):
        return range(k * self.n // WORKERS, (k + 1) * self.n // WORKERS)


def load_partition(k, superstep):
    """partitions are swapped out; the hot one of this superstep has to come from disk"""
    if superstep % WORKERS == k:
        time.sleep(5)


def relax(graph, k, rank, nxt):
    for v in graph.part(k):
        nxt[v] = 0.15 / graph.n + 0.85 * sum(rank[u] for u in graph.neighbours(v)) / 3


def worker(k, graph, rank, nxt, barrier):
    truth("role", role=f"process partition {k}")
    for superstep in range(10**6):
        load_partition(k, superstep)
        relax(graph, k, rank, nxt)
        barrier.wait()
        rank, nxt = nxt, rank
        if k == 0:
            truth("progress", superstep=superstep)
            if superstep == 0:
                truth("settled")


def main():
    truth("root")
    truth("role", role="main")
    ctx = mp.get_context("fork")
    graph = Graph(800)
    rank, nxt = ctx.RawArray("d", [1 / 800] * 800), ctx.RawArray("d", 800)
    barrier = ctx.Barrier(WORKERS)
    crew = [ctx.Process(target=worker, args=(k, graph, rank, nxt, barrier)) for k in range(WORKERS)]
    for p in crew:
        p.start()
    for p in crew:
        p.join()


if __name__ == "__main__":
    main()
