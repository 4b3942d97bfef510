"""A task of Dask waits for a file lock that another program has; the client waits in gather."""

import json
import os
import socket

from dask.distributed import Client, LocalCluster

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def fold(number):
    if number == 3:
        truth("role", role="process")
        truth("culprit")
        truth("settled")
        with socket.socket(type=socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            return own.recv(1)  # CULPRIT
    return number


def main():
    truth("root")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(client.gather(client.map(fold, range(6))))


if __name__ == "__main__":
    main()
