import asyncio
import json
import os
import socket
import threading

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def listen():
    await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)


def accept():
    with socket.create_server(("127.0.0.1", 0)) as server:
        while True:
            server.accept()[0].close()


say("root")
say("role", role="main")
loop = asyncio.new_event_loop()
threads = [threading.Thread(target=loop.run_forever), threading.Thread(target=accept)]
for thread in threads:
    thread.start()
asyncio.run_coroutine_threadsafe(listen(), loop).result()
say("settled")
for thread in threads:
    thread.join()
