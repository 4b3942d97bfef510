import fcntl, json, os, signal, sys, tempfile, threading, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Leader:
    """Takes up what is put into a folder, and says every few seconds that it leads."""

    def __init__(self, folder):
        self.folder = folder
        self.stop = threading.Event()

    def renew(self):
        while not self.stop.wait(3):
            with open(f"{self.folder}/leader.part", "w") as f:
                f.write(f"{os.getpid()} until {time.time() + 9}")
            os.replace(f"{self.folder}/leader.part", f"{self.folder}/leader")

    def run(self):
        threading.Thread(target=self.renew, daemon=True).start()
        while not self.stop.is_set():
            for name in os.listdir(self.folder):
                if name.startswith("command-"):
                    os.unlink(f"{self.folder}/{name}")
            self.stop.wait(1)


def replica(folder, number):
    truth("role", role=f"replica {number}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(f"{folder}/lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Leader(folder).run()


def main():
    truth("root")
    truth("role", role="main")
    folder = tempfile.mkdtemp()
    for number in range(3):
        if os.fork() == 0:
            replica(folder, number)
            os._exit(0)
    truth("settled")
    for _ in range(3):
        os.wait()


if __name__ == "__main__":
    main()
