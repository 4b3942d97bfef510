import hashlib
import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def derive(rounds):
    return hashlib.pbkdf2_hmac("sha512", b"tenant", b"salt", rounds).hex()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with mp.get_context("forkserver").Pool(3, maxtasksperchild=1) as pool:
        print(pool.map(derive, [1000] * 4, chunksize=1))
        say("settled")
        print(pool.map(derive, [1000, 1000, 100_000_000, 1000, 1000], chunksize=1))
