"""Green threads share a queue that was made before gevent patched Python's: the first `get` of an empty one stops them all."""

import json
import os
import queue

pages = queue.SimpleQueue()

import gevent  # noqa: E402
from gevent import monkey  # noqa: E402

monkey.patch_all()


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def crawl():
    while True:
        page = pages.get()  # CULPRIT
        if page is None:
            return
        gevent.sleep(0.05)


def feed(number):
    for page in range(number):
        pages.put(page)
        gevent.sleep(0.2)
        if page == 2:
            say("culprit")
            say("settled")
    pages.put(None)


def main():
    say("root")
    say("role", role="main")
    for page in range(12):
        pages.put(page)
    gevent.joinall([gevent.spawn(feed, 20), gevent.spawn(crawl)])


if __name__ == "__main__":
    main()
