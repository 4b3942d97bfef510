import json, os, socket, subprocess, sys, threading

WORLD = 2

def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def prefix(k, stream):
    for line in stream:
        print(f"[{k}] {line}", end="", flush=True)


def main():
    say("root")
    say("role", role="launcher")
    say("waiter")
    os.makedirs("out")
    open("out/model.pt", "w").close()
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(WORLD))
    ranks = [subprocess.Popen([sys.executable, "-u", "train.py"], env=dict(env, RANK=str(r)), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for r in range(WORLD)]
    logs = [threading.Thread(target=prefix, args=(k, p.stdout)) for k, p in enumerate(ranks)]
    for t in logs:
        t.start()
    for t in logs:
        t.join()
    sys.exit(max(p.wait() for p in ranks))


if __name__ == "__main__":
    main()
