"""Main looks into a folder for new files and hands them to workers, which wait for hours until one comes."""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator


def say(**event: object) -> None:
    line = json.dumps(event) + "\n"
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(line)


class Inbox:
    def __init__(self, folder: str) -> None:
        self.folder, self.known = folder, set[str]()

    def new(self) -> Iterator[str]:
        for name in os.listdir(self.folder):
            if name not in self.known:
                self.known.add(name)
                yield os.path.join(self.folder, name)


def measure(files: "multiprocessing.Queue[str]", sizes: "multiprocessing.Queue[int]") -> None:
    say(event="role", pid=os.getpid(), role=f"process {multiprocessing.current_process().name}")
    while True:
        sizes.put(os.path.getsize(files.get()))


def main() -> None:
    say(event="root", pid=os.getpid())
    say(event="role", pid=os.getpid(), role="main")
    context = multiprocessing.get_context("fork")
    files, sizes = context.Queue(), context.Queue()
    for number in range(2):
        context.Process(target=measure, args=(files, sizes), name=f"measure-{number}", daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        inbox = Inbox(folder)
        say(event="settled")
        while True:
            for file in inbox.new():
                files.put(file)
            while not sizes.empty():
                print(sizes.get(), flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
