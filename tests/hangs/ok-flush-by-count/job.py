import json
import os
import queue
import time
import multiprocessing


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)



class Batcher:
    """Sends what it has gathered once nothing came for a while."""

    def __init__(self, requests, replies):
        self.requests, self.replies = requests, replies

    def serve(self):
        gathered, quiet = [], 0
        while True:
            try:
                gathered.append(self.requests.get(timeout=0.5))
                quiet = 0
            except queue.Empty:
                quiet += 1
                if gathered and quiet >= 30:
                    for k in gathered:
                        self.replies[k].put("done")
                    gathered = []


def client(k, requests, reply):
    say("role", role=f"process client-{k}")
    while True:
        requests.put(k)
        reply.get()


def main():
    say("root")
    say("role", role="main")
    requests, replies = multiprocessing.Queue(), [multiprocessing.Queue() for _ in range(2)]
    for k in range(2):
        multiprocessing.Process(target=client, args=(k, requests, replies[k]), name=f"client-{k}", daemon=True).start()
    say("settled")
    Batcher(requests, replies).serve()


if __name__ == "__main__":
    main()
