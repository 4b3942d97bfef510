import json, os, time
import multiprocessing as mp

WORKERS = 4


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def render(tile, quality):
    total = 0
    for i in range(quality * 200):
        total += (tile * i) % 7
    time.sleep(0.01 * (tile % 3))
    return total


def pause(k):
    """worker 2 has the old disk"""
    time.sleep(0.4 if k == 2 else 0.0)


def draft_phase(k, tiles, out):
    n = 0
    while not tiles.empty():
        pause(k)
        tile = tiles.get()  # CULPRIT
        out[tile] = render(tile, 1)
        n += 1
    return n


def final_phase(k, out):
    for tile in range(k, len(out), WORKERS):
        out[tile] = render(tile, 4)


def renderer(k, tiles, out, barrier, drafted):
    truth("role", role=f"process renderer {k}")
    n = draft_phase(k, tiles, out)
    print(f"renderer {k}: {n} tiles", flush=True)
    drafted[k] = 1
    barrier.wait()
    final_phase(k, out)
    while True:
        barrier.wait()
        time.sleep(1)


def main():
    truth("root")
    truth("role", role="main")
    truth("waiter")
    ctx = mp.get_context("fork")
    tiles, out, barrier = ctx.Queue(), ctx.Array("q", 160), ctx.Barrier(WORKERS)
    drafted = ctx.RawArray("b", WORKERS)
    for t in range(160):
        tiles.put(t)
    time.sleep(0.3)
    crew = [ctx.Process(target=renderer, args=(k, tiles, out, barrier, drafted)) for k in range(WORKERS)]
    for p in crew:
        p.start()
    time.sleep(5)
    for k, p in enumerate(crew):
        truth("waiter" if drafted[k] else "culprit", p.pid, thread="MainThread")
    truth("settled")
    for p in crew:
        p.join()


if __name__ == "__main__":
    main()
