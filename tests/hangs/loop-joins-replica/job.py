import asyncio
import json
import multiprocessing
import os
import socket


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)



def replica(path, stop):
    say("role", role=f"process {multiprocessing.current_process().name}")
    say("waiter")
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.connect(path)
        while True:
            leaving = stop.is_set()
            gateway.sendall(b"leave\n" if leaving else b"work\n")
            gateway.recv(100)
            if leaving:
                return


class Gateway:
    async def answer(self, reader, writer):
        while await reader.readline():
            await asyncio.sleep(0.05)
            writer.write(b"done\n")
            await writer.drain()

    async def run(self, path):
        context = multiprocessing.get_context("spawn")
        server = await asyncio.start_unix_server(self.answer, path)
        stops = [context.Event() for _ in range(2)]
        members = [context.Process(target=replica, args=(path, stop), name=f"replica-{k}", daemon=True) for k, stop in enumerate(stops)]
        for member in members:
            member.start()
        await asyncio.sleep(3)
        say("settled")
        stops[0].set()
        members[0].join()  # CULPRIT
        server.close()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    asyncio.run(Gateway().run(os.path.join("/tmp", f"gateway-{os.getpid()}.sock")))
