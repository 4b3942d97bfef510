"""Readings come in a System V queue; a bad one ends the sensor."""

import ctypes
import json
import multiprocessing
import os
import time

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_PRIVATE, IPC_RMID = 0, 0


class Message(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_long), ("text", ctypes.c_char * 64))


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def send(queue, text):
    message = Message(1, text)
    LIBC.msgsnd(queue, ctypes.byref(message), ctypes.c_size_t(64), 0)


def receive(queue):
    message = Message()
    LIBC.msgrcv(queue, ctypes.byref(message), ctypes.c_size_t(64), ctypes.c_long(0), 0)
    return message.text


def sensor(queue):
    truth("role", role="process sensor")
    truth("culprit", dead=True)
    for reading in ("20.5", "21", "n/a"):
        send(queue, f"{float(reading):.2f}".encode())


def main():
    truth("root")
    truth("role", role="main")
    queue = LIBC.msgget(IPC_PRIVATE, 0o600)
    try:
        multiprocessing.Process(target=sensor, args=(queue,), daemon=True).start()
        for number in range(4):
            if number == 2:
                truth("settled")
            print(receive(queue))
    finally:
        LIBC.msgctl(queue, IPC_RMID, None)


if __name__ == "__main__":
    main()
