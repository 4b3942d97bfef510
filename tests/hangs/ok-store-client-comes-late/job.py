"""Three processes meet by keys of a TCPStore, without a process group; the last one comes to the store a minute later."""

import datetime
import json
import multiprocessing
import os
import time

from torch.distributed import TCPStore


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def member(number, port):
    truth("role", role="process member")
    if number == 2:
        time.sleep(60)
    limit = datetime.timedelta(minutes=10)
    store = TCPStore("127.0.0.1", port, is_master=False, timeout=limit, wait_for_workers=False)
    store.set(f"here/{number}", "1")
    if number == 0:
        truth("settled")
    store.wait([f"here/{other}" for other in range(3)])


def main():
    truth("root")
    truth("role", role="main")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    spawn = multiprocessing.get_context("spawn")
    members = [spawn.Process(target=member, args=(number, store.port)) for number in range(3)]
    for process in members:
        process.start()
    for process in members:
        process.join()


if __name__ == "__main__":
    main()
