"""Lines of a log are sorted by workers that match their shapes; one line is no sentence."""
import json
import multiprocessing
import os
import re
import time

SENTENCE = re.compile(r"^(?:(?:\w+)+\s?)+\.$")


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def is_sentence(line):
    return SENTENCE.match(line) is not None  # CULPRIT


def sort(number, lines, sorted_lines):
    truth("role", role=f"process sorter-{number}")
    for line in iter(lines.get, None):
        if len(line) > 40:
            truth("culprit", thread="MainThread")
            truth("settled")
        sorted_lines.put((is_sentence(line), line))


def main():
    truth("root")
    truth("role", role="main")
    lines, sorted_lines = multiprocessing.Queue(), multiprocessing.Queue()
    for number in range(2):
        name = f"sorter-{number}"
        args = (number, lines, sorted_lines)
        multiprocessing.get_context("fork").Process(target=sort, args=args, name=name, daemon=True).start()
    texts = ["the job has ended .", "rank 3 left .", "http" + "x" * 60 + "!", "rank 0 left ."]
    for text in texts:
        lines.put(text)
        time.sleep(0.2)
    for _ in texts:
        print(*sorted_lines.get(), flush=True)


if __name__ == "__main__":
    main()
