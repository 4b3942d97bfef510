"""Main waits in rounds of five seconds for SIGTERM, as its workers have nothing to do."""

import json
import multiprocessing
import os
import signal


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(pages):
    say("role", role="process work")
    while True:
        pages.get()


def main():
    say("root")
    say("role", role="main")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    context = multiprocessing.get_context("fork")
    pages = context.Queue()
    for _ in range(2):
        context.Process(target=work, args=(pages,), daemon=True).start()
    say("settled")
    while not signal.sigtimedwait({signal.SIGTERM, signal.SIGHUP}, 5):
        say("progress")


if __name__ == "__main__":
    main()
