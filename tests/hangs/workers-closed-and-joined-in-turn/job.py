import hashlib
import multiprocessing as mp
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
                text = self.receive()
            except EOFError:
                break
            self.theirs.send(int(hashlib.sha1(text.encode()).hexdigest()[:6], 16))

    def receive(self):
        return self.theirs.recv()  # CULPRIT

    def score(self, text):
        self.connection.send(text)
        return self.connection.recv()

    def stop(self):
        self.connection.close()
        self.process.join()


def main():
    say("root")
    say("role", role="main")
    scorers = [Scorer(number) for number in range(2)]
    print(max(scorers[at % 2].score(f"document {at}") for at in range(200)), flush=True)
    say("culprit", pid=scorers[1].process.pid, thread="MainThread")
    say("waiter", pid=scorers[0].process.pid)
    say("settled")
    for scorer in scorers:
        scorer.stop()


if __name__ == "__main__":
    main()
