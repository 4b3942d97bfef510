import fcntl, json, os, subprocess, sys, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class TapeDrive:
    """Only one job may use the drive."""

    def __init__(self, path="drive.lock"):
        self.f = open(path, "w")

    def __enter__(self):
        fcntl.flock(self.f, fcntl.LOCK_EX)
        return self

    def __exit__(self, *exc):
        fcntl.flock(self.f, fcntl.LOCK_UN)

    def write(self, block):
        time.sleep(1)


def make_volume(k, n):
    return [f"exporter {k} volume {n} block {b}" for b in range(4)]


def export(k):
    truth("role", role=f"process exporter {k}")
    drive = TapeDrive()
    for n in range(10**6):
        with drive:
            for block in make_volume(k, n):
                drive.write(block)
        truth("progress", volume=n)
        time.sleep(0.2)


def main():
    truth("root")
    truth("role", role="main")
    jobs = [subprocess.Popen([sys.executable, "job.py", str(k)]) for k in range(4)]
    time.sleep(1)
    truth("settled")
    for p in jobs:
        p.wait()


if __name__ == "__main__":
    export(int(sys.argv[1])) if len(sys.argv) > 1 else main()
