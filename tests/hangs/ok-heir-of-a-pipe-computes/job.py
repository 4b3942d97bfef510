import multiprocessing as mp
import time
import json
import os


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


ctx = mp.get_context("fork")


class Scorer:
    def __init__(self, number):
        self.number = number
        self.connection, self.theirs = ctx.Pipe()
        self.process = ctx.Process(target=self.run, name=f"scorer-{number}")
        self.process.start()
        self.theirs.close()

    def run(self):
        self.connection.close()
        say("role", role=f"process scorer-{self.number}")
        while True:
            try:
                seconds = self.theirs.recv()
            except EOFError:
                break
            until, found = time.monotonic() + seconds, 0
            while time.monotonic() < until:
                found = sum(number * number for number in range(found % 1000, 20000))


def main():
    say("root")
    say("role", role="main")
    scorers = [Scorer(number) for number in range(2)]
    for scorer in scorers:
        scorer.connection.send(60 * scorer.number)
        scorer.connection.close()
    say("settled")
    for scorer in scorers:
        scorer.process.join()


if __name__ == "__main__":
    main()
