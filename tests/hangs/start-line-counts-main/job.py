import json
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

class Bench:
    """starts all clients at the same moment and measures the throughput"""

    def __init__(self, clients, requests):
        self.requests = requests
        self.start_line = threading.Barrier(clients + 1)
        self.times = []
        self.threads = [threading.Thread(target=self.client, args=(k,), name=f"client-{k}") for k in range(clients)]

    def client(self, k):
        body = bytes(1000 * (k + 1))
        self.start_line.wait()
        t = time.monotonic()
        for _ in range(self.requests):
            hash(body)
            time.sleep(0.01)
        self.times.append(time.monotonic() - t)

    def run(self):
        for t in self.threads:
            t.start()
        time.sleep(0.2)
        say("culprit", thread="MainThread")
        say("settled")
        t0 = time.monotonic()
        for t in self.threads:
            t.join()  # CULPRIT
        return len(self.threads) * self.requests / (time.monotonic() - t0)


def main():
    say("root")
    say("role", role="main")
    rate = Bench(clients=4, requests=100).run()
    print(f"{rate:.0f} requests/s")


if __name__ == "__main__":
    main()
