import json
import multiprocessing as mp
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def count_words(k, texts, results):
    say("role", role=f"process counter-{k}")
    for i, t in enumerate(texts):
        results.put((k, i, len(t.split())))
        time.sleep(0.05)
    time.sleep(0.3 + 0.3 * k)
    if k == 1:
        say("culprit", thread="MainThread", dead=True)
        results.put((k, "total", sum(len(t) for t in texts)))
        os._exit(0)  # the tokenizer's atexit hook takes ages
    results.put((k, "total", sum(len(t) for t in texts)))
    results.close()
    results.join_thread()
    os._exit(0)


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    ctx = mp.get_context("fork")
    results = ctx.Queue()
    texts = [f"line {i} of the text" for i in range(10)]
    ps = [ctx.Process(target=count_words, args=(k, texts, results)) for k in range(2)]
    for p in ps:
        p.start()
    table = {}
    while len(table) < 2 * (len(texts) + 1):
        if len(table) == 21:
            say("settled")
        k, i, n = results.get()  # CULPRIT
        table[k, i] = n
    print(sum(table.values()))
    for p in ps:
        p.join()


if __name__ == "__main__":
    main()
