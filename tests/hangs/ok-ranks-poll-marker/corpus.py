import os
import time


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(1)


def words(shard, n=4000):
    for k in range(n):
        yield f"{shard}-{k * 7 % 613}"


def tokenize(shard, folder, step):
    ids = {}
    with open(os.path.join(folder, f"{shard}.ids"), "w") as out:
        for n, w in enumerate(words(shard)):
            out.write(f"{ids.setdefault(w, len(ids))} ")
            if n % 400 == 0:
                out.flush()
                time.sleep(0.2)  # the text comes from a slow bucket
    step(shard)
