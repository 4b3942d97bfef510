"""Steps run in a thread that stands for a remote device; workers are forked once its sockets are open."""
import json
import multiprocessing
import os
import socket
import threading
import time


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def device(end):
    while step := end.recv(4):
        time.sleep(9)
        end.sendall(step)


def load(numbers, pages):
    truth("role", role="process load (ForkProcess-1)")
    for number in iter(numbers.get, None):
        pages.put(bytes(number))


def main():
    truth("root")
    truth("role", role="main")
    near, far = socket.socketpair()
    threading.Thread(target=device, args=(far,), daemon=True).start()
    fork = multiprocessing.get_context("fork")
    numbers, pages = fork.Queue(), fork.Queue(2)
    fork.Process(target=load, args=(numbers, pages), daemon=True).start()
    for number in range(100):
        numbers.put(number)
    truth("settled")
    while True:
        print(len(pages.get()), flush=True)
        near.sendall(b"step")
        near.recv(4)


if __name__ == "__main__":
    main()
