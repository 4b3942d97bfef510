"""A sensor takes commands; a timer's handler sends its samples."""
import json
import os
import signal


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def sensor(commands, samples):
    truth("role", role="child of main")
    taken = 0

    def sample(*_):
        nonlocal taken
        taken += 1
        os.write(samples, f"sample {taken}\n".encode())

    signal.signal(signal.SIGALRM, sample)
    signal.setitimer(signal.ITIMER_REAL, 20, 20)
    while os.read(commands, 100):
        os.write(samples, b"status: well\n")


def main():
    truth("root")
    truth("role", role="main")
    (read_command, write_command), (read_sample, write_sample) = os.pipe(), os.pipe()
    if not os.fork():
        os.close(write_command)
        os.close(read_sample)
        sensor(read_command, write_sample)
        os._exit(0)
    os.close(read_command)
    os.close(write_sample)
    os.write(write_command, b"status")
    truth("settled")
    with os.fdopen(read_sample) as samples:
        for line in samples:
            print(line.strip(), flush=True)


if __name__ == "__main__":
    main()
