import fcntl, json, os, socket, subprocess, sys, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class DatasetLock:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.set_inheritable(self.fd, True)  # lets tar and friends run under our lock

    def __enter__(self):
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        return self

    def __exit__(self, *exc):
        os.close(self.fd)


def thumbnails(listener):
    truth("role", role="subprocess thumbnails")
    truth("culprit", thread="MainThread")
    while True:
        conn, _ = listener.accept()  # CULPRIT
        conn.sendall(b"P5 1 1 255 0")
        conn.close()


def unpack(folder):
    os.makedirs(folder, exist_ok=True)
    for i in range(20):
        with open(os.path.join(folder, f"{i:03d}.txt"), "w") as f:
            f.write(str(i))
        time.sleep(0.02)


def prepare():
    """First step: unpack the data set and start the preview server for the notebook."""
    truth("role", role="process prepare")
    with DatasetLock("dataset.lock"):
        unpack("data")
        listener = socket.create_server(("127.0.0.1", 0))
        if os.fork() == 0:
            thumbnails(listener)
        with open("preview.port", "w") as f:
            f.write(str(listener.getsockname()[1]))
    os._exit(0)


def trainer(k):
    truth("role", role=f"process trainer {k}")
    truth("waiter")
    if k == 1:
        time.sleep(0.3)
        truth("settled")
    fd = os.open("dataset.lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    names = sorted(os.listdir("data"))
    fcntl.flock(fd, fcntl.LOCK_UN)
    total = 0
    while True:
        total += sum(int(open(f"data/{n}").read()) for n in names)
        time.sleep(0.5)


def main():
    truth("root")
    truth("role", role="main")
    truth("waiter")
    subprocess.run([sys.executable, "job.py", "prepare"], check=True)
    trainers = [subprocess.Popen([sys.executable, "job.py", "train", str(k)]) for k in range(2)]
    for p in trainers:
        p.wait()


if __name__ == "__main__":
    step = sys.argv[1:]
    main() if not step else prepare() if step[0] == "prepare" else trainer(int(step[1]))
