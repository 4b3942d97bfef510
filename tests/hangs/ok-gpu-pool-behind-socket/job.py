import json
import os
import socket
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"
PATH = os.path.join(tempfile.gettempdir(), "front.sock")


def load():
    global NET
    say("role", role=f"pool worker {os.getpid()}")
    torch.set_num_threads(1)
    NET = torch.nn.Linear(32, 4).to(DEV)
    NET(torch.zeros(1, 32, device=DEV))


def classify(v):
    with torch.inference_mode():
        return NET(torch.full((1, 32), v, device=DEV)).argmax().item()


def warm(_):
    time.sleep(1)


def probe():
    say("role", role="process probe")
    for k in range(100_000):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(PATH)
            s.sendall(bytes([k % 50]))
            s.recv(1)
        say("progress", asked=k)
        if k == 0:
            say("settled")
        time.sleep(5)


def main():
    say("root")
    say("role", role="main")
    with socket.socket(socket.AF_UNIX) as front:
        front.bind(PATH)
        front.listen()
        mp.get_context("fork").Process(target=probe, daemon=True).start()
        with ProcessPoolExecutor(2, mp.get_context("spawn"), load) as pool:
            list(pool.map(warm, range(2)))
            while True:
                conn, _ = front.accept()
                with conn:
                    v = conn.recv(1)
                    conn.sendall(bytes([pool.submit(classify, float(v[0])).result()]))


if __name__ == "__main__":
    main()
