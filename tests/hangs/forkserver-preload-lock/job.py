import json
import multiprocessing as mp
import os

N = 3


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

def geocode(k, addresses, results):
    import geo_tables

    say("role", role=f"process geocoder-{k}")
    say("culprit", thread="MainThread")
    settle(N + 1)
    for address in iter(addresses.get, None):
        results.put((address, geo_tables.find(address)))
    results.put(None)


def read_addresses():
    return [f"{n} Main Street, district {n % 23}" for n in range(1, 200)]


def collect(results, n):
    rows, open_ends = [], n
    while open_ends:
        row = results.get()
        if row is None:
            open_ends -= 1
        else:
            rows.append(row)
    return rows


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("forkserver")
    ctx.set_forkserver_preload(["geo_tables"])
    addresses, results = ctx.Queue(), ctx.Queue()
    workers = [ctx.Process(target=geocode, args=(k, addresses, results)) for k in range(N)]
    for p in workers:
        p.start()
    for a in read_addresses():
        addresses.put(a)
    for _ in workers:
        addresses.put(None)
    say("waiter")
    settle(N + 1)
    rows = collect(results, N)
    print(len(rows), "addresses")
    for p in workers:
        p.join()


if __name__ == "__main__":
    main()
