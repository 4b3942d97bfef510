import json
import multiprocessing as mp
import os


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def total(number, words):
    truth("role", role=f"process total-{number}")
    count = 0
    while (word := words.get()) is not None:  # CULPRIT
        count += len(word)
    return count


def main():
    truth("root"), truth("role", role="main")
    truth("culprit", thread="MainThread")
    words = mp.Queue()
    counters = [mp.Process(target=total, args=(number, words)) for number in range(3)]
    for counter in counters:
        counter.start()
    for number in range(1000):
        words.put(f"word {number}")
    words.put(None)
    ended = mp.connection.wait([counter.sentinel for counter in counters])
    stay = [counter for counter in counters if counter.sentinel not in ended]
    for counter in stay:
        truth("culprit", counter.pid, thread="MainThread")
    truth("settled")
    # Whoever took the mark stays a zombie: the others are waited for first.
    for counter in stay:
        os.waitpid(counter.pid, 0)  # CULPRIT


if __name__ == "__main__":
    import multiprocessing.connection

    main()
