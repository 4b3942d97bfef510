import json
import multiprocessing as mp
import os
import struct
import time

CTX = mp.get_context("fork")


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

def tokenize(docs, out):
    say("role", role="process tokenizer")
    for doc in docs:
        out.send((doc, [ord(c) % 50 for c in f"document number {doc}"]))
        time.sleep(0.001)
    out.close()


def write_shards(source, out, done):
    say("role", role="process writer")
    say("culprit", thread="MainThread")
    tokens, shard = 0, open("shard-0.bin", "wb")
    try:
        while True:
            doc, ids = source.recv()  # CULPRIT
            shard.write(struct.pack(f"{len(ids)}H", *ids))
            tokens += len(ids)
            done.set()
    except EOFError:
        shard.close()
        print(tokens, "tokens written", flush=True)


def heartbeat(stop):
    say("role", role="process monitor")
    say("waiter")
    stop.wait()


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    stop, done = CTX.Event(), CTX.Event()
    monitor = CTX.Process(target=heartbeat, args=(stop,))
    monitor.start()
    source, out = CTX.Pipe(duplex=False)
    writer = CTX.Process(target=write_shards, args=(source, out, done))
    writer.start()
    source.close()
    tokenizer = CTX.Process(target=tokenize, args=(range(300), out))
    tokenizer.start()
    out.close()
    tokenizer.join()
    say("settled")
    writer.join()
    stop.set()
    monitor.join()


if __name__ == "__main__":
    main()
