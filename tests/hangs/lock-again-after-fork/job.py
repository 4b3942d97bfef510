import contextlib, fcntl, json, os, tempfile, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@contextlib.contextmanager
def locked(path):
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def telemetry():
    truth("role", role="process")
    truth("culprit")
    while True:
        load = os.getloadavg()  # CULPRIT
        print(f"load {load[0]:.1f}", flush=True)  # CULPRIT
        time.sleep(0.7)  # CULPRIT


def main():
    truth("root")
    truth("role", role="main")
    path = os.path.join(tempfile.mkdtemp(), "registry")
    with locked(path) as registry:
        registry.write("begun\n")
        if os.fork() == 0:
            telemetry()
    truth("settled")
    with locked(path) as registry:
        registry.write("ended\n")


if __name__ == "__main__":
    main()
