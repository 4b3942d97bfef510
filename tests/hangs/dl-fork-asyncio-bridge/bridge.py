"""Coroutines for code that is not asynchronous: a loop runs in a thread of its own."""

import asyncio
import threading

LOOP = None


def loop():
    global LOOP
    if LOOP is None:
        LOOP = asyncio.new_event_loop()
        threading.Thread(target=LOOP.run_forever, name="fsio", daemon=True).start()
    return LOOP


def sync(coroutine):
    """Run it on the loop's thread, and wait."""
    done = threading.Event()
    answer = []

    async def run():
        try:
            answer.append(await coroutine)
        finally:
            done.set()

    asyncio.run_coroutine_threadsafe(run(), loop())

    while True:
        if done.wait(1):  # CULPRIT
            break
    return answer[0]


class Bucket:
    """Objects by their names, as if they came over the network."""

    def __init__(self, count):
        self.objects = {f"{n}.bin": bytes([n % 256]) * 32 for n in range(count)}

    async def _names(self):
        await asyncio.sleep(0.01)
        return sorted(self.objects)

    async def _cat(self, name):
        await asyncio.sleep(0.01)
        return self.objects[name]

    def names(self):
        return sync(self._names())

    def cat(self, name):
        """The bytes of one object."""


        return sync(self._cat(name))
