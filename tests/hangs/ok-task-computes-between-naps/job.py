import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import threading
import time
from concurrent.futures import ThreadPoolExecutor

computing = threading.Lock()


def means(number):
    with computing:
        begin, found = time.time(), []
        while time.time() - begin < 40:
            found.append(sum(k * number % 7 for k in range(20_000)) / 20_000)
            time.sleep(0.1)
    return found[-1]


def main():
    say("root")
    say("role", role="main")
    threading.Timer(2, say, ("settled",)).start()
    with ThreadPoolExecutor(3, "reader") as pool:
        print(list(pool.map(means, range(6))))


if __name__ == "__main__":
    main()
