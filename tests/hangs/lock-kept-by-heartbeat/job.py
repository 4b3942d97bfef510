import fcntl, json, multiprocessing as mp, os, tempfile, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def beat(path):
    truth("role", role="process beat")
    truth("culprit")
    while True:
        with open(path, "w") as f:  # CULPRIT
            f.write(f"{time.time():.1f}\n")  # CULPRIT
        time.sleep(1)  # CULPRIT


def build(folder, number, built):
    truth("role", role=f"process build-{number}")
    with open(f"{folder}/cache.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built.put(number)


def main():
    truth("root")
    truth("role", role="main")
    context, folder = mp.get_context("fork"), tempfile.mkdtemp()
    built = context.SimpleQueue()
    with open(f"{folder}/cache.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        context.Process(target=beat, args=(f"{folder}/alive",), daemon=True).start()
    for number in range(2):
        context.Process(target=build, args=(folder, number, built)).start()
    truth("settled")
    print([built.get() for _ in range(2)])


if __name__ == "__main__":
    main()
