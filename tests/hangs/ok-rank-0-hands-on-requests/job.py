"""Rank 0 takes requests and hands each on to the other ranks."""
import json
import os
import socket

import torch.distributed as dist


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def answer(request):
    return request[0].upper()


def serve(rank):
    server = socket.create_server(("127.0.0.1", 0)) if rank == 0 else None
    while True:
        request = [None]
        if server:
            connection, _ = server.accept()
            request = [connection.recv(1000)]
        dist.broadcast_object_list(request, src=0)
        text = answer(request)
        if server:
            connection.sendall(text)
            connection.close()


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    if rank == 0:
        truth("root", pid=os.getppid())
        truth("role", pid=os.getppid(), role="launcher")
    truth("role", role=f"rank {rank}")
    dist.init_process_group("gloo")
    truth("settled")
    serve(rank)
