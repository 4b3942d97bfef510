import asyncio
import json
import os
import threading

LOOP = asyncio.new_event_loop()


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def serve():
    """Serves the others; main gives its own coroutines to the same loop."""
    await asyncio.sleep(0.2)
    raise OSError(98, "Address already in use")


def run():
    LOOP.run_until_complete(serve())


async def fetch(name):
    await asyncio.sleep(0.01)
    return name.upper()


def get(name):
    say("culprit", thread="MainThread"), say("settled")
    future = asyncio.run_coroutine_threadsafe(fetch(name), LOOP)





    return future.result()  # CULPRIT


def main():
    say("root"), say("role", role="main")
    thread = threading.Thread(target=run, name="loop")
    thread.start()
    thread.join(5)  # whoever looked at it would know


    print(get("weights"))



if __name__ == "__main__":
    main()
