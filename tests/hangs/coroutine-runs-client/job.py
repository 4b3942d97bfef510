import asyncio
import json
import os
import socket
import subprocess
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def check(port):
    """Asks the registry whether the model that was uploaded is complete."""
    say("role", role="subprocess")
    say("waiter")
    with socket.create_connection(("127.0.0.1", port)) as registry:
        registry.sendall(b"size\n")
        return int(registry.recv(100))


class Registry:
    async def serve(self, reader, writer):
        while line := await reader.readline():
            if line == b"upload\n":
                self.check()
            writer.write(b"100\n")
            await writer.drain()

    def check(self):
        say("settled")
        subprocess.run([sys.executable, __file__, str(self.port)], check=True)  # CULPRIT

    async def run(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.sleep(2)
        writer.write(b"upload\n")
        print(await reader.readline())


if __name__ == "__main__":
    if sys.argv[1:]:
        check(int(sys.argv[1]))
    else:
        say("root")
        say("role", role="main")
        say("culprit", thread="MainThread")
        asyncio.run(Registry().run())
