import socket
import subprocess
import sys
import tarfile

from torch.utils.data import DataLoader, IterableDataset
import json
import os


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


SERVER = """
import os, socket
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
server = socket.socket(fileno=int(os.environ["SERVER"]))
os.closerange(0, server.fileno())
server.settimeout(1)
kept = []
while os.path.exists("running"):
    try: kept.append(server.accept())
    except TimeoutError: pass
"""


class Shards(IterableDataset):
    def __init__(self, commands):
        self.commands = commands

    def __iter__(self):
        say("role", role="dataloader worker 0")
        for command in self.commands:
            with subprocess.Popen(command, stdout=subprocess.PIPE) as download:
                say("role", pid=download.pid, role="subprocess curl")
                say("culprit", pid=download.pid, thread="MainThread")
                say("settled")
                with tarfile.open(fileobj=download.stdout, mode="r|") as members:
                    yield from (member.name for member in members)


def main():
    say("root")
    say("role", role="main")
    server = socket.create_server(("127.0.0.1", 0))
    open("running", "w").close()
    environment = {**os.environ, "SERVER": str(server.fileno())}
    subprocess.run([sys.executable, "-c", SERVER], pass_fds=[server.fileno()], env=environment, check=True)
    port = server.getsockname()[1]
    server.close()
    for names in DataLoader(Shards([["curl", "-s", f"http://127.0.0.1:{port}/shard.tar"]]), num_workers=1):
        print(names)


if __name__ == "__main__":
    main()
