import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def captions(queue, count):
    say("role", role="process captions")
    say("culprit", thread="MainThread", dead=True)
    for number in range(count):
        queue.put(f"caption {number}")


def images(queue, count):
    say("role", role="process images")
    for number in range(count):




        queue.put(bytes(100) + bytes([number % 256]))


class Joiner:
    """Pairs of an image and its caption."""

    def __init__(self, sources, pairs):
        self.sources = sources
        self.joined = pairs

    def pairs(self):
        number = 0
        while True:
            number += 1
            if number == 41:
                say("settled")


            yield self.sources[0].get(), self.sources[1].get()

    def run(self):
        """Hands them on."""
        say("role", role="process joiner")




        for pair in self.pairs():
            self.joined.put(pair)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    sources, pairs = (ctx.Queue(8), ctx.Queue(8)), ctx.Queue()
    jobs = [(images, (sources[0], 60)), (captions, (sources[1], 40)), (Joiner(sources, pairs).run, ())]
    for process in [ctx.Process(target=target, args=args) for target, args in jobs]:
        process.start()
    seen = 0
    while seen < 60:
        seen += 1
        if seen % 20 == 0:
            print(seen)
        pairs.get()




if __name__ == "__main__":
    main()
