"""Three stages pass texts around over zmq; the second one fails on a text that has no words, and the others wait for each other."""

import json
import multiprocessing
import os
import tempfile

import zmq

TEXTS = ["good morning", "how are you", "", "good night"]


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def stage(source, sink):
    context = zmq.Context()
    one, other = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    one.bind(source)
    other.connect(sink)
    return one, other


def split(folder):
    truth("role", role="process split")
    one, other = stage(f"{folder}/texts", f"{folder}/words")
    while True:
        words = one.recv_string().split()
        if not words:
            truth("culprit", dead=True)
            truth("settled")
        other.send_json([words[0], len(words)])


def count(folder):
    truth("role", role="process count")
    one, other = stage(f"{folder}/words", f"{folder}/counts")
    while True:
        _, number = one.recv_json()
        other.send_json(number)


def main():
    truth("root")
    truth("role", role="main")
    folder = "ipc://" + tempfile.mkdtemp(dir=os.getcwd())
    spawn = multiprocessing.get_context("spawn")
    for target in (split, count):
        spawn.Process(target=target, args=(folder,), daemon=True).start()
    counts, texts = stage(f"{folder}/counts", f"{folder}/texts")
    for text in TEXTS * 100:
        texts.send_string(text)
        print(text, counts.recv_json(), flush=True)


if __name__ == "__main__":
    main()
