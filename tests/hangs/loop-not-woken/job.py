"""A gateway asks a device that answers in a thread of its own; its coroutines await the answers."""
import asyncio, json, os, queue, threading, time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


class Device(threading.Thread):
    """Answers one request after the other."""

    def __init__(self):
        super().__init__(name="device", daemon=True)
        self.requests = queue.Queue()

    def ask(self, register):
        answer = asyncio.get_running_loop().create_future()
        self.requests.put((register, answer))
        return answer

    def run(self):
        while True:
            register, answer = self.requests.get()
            time.sleep(0.5)
            answer.set_result(register * 3)


async def poll(device, registers):
    values = {}
    for register in registers:
        values[register] = await device.ask(register)  # CULPRIT
    return values


async def main():
    device = Device()
    device.start()
    truth("culprit")
    truth("settled")
    print(await poll(device, range(100)))


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    asyncio.run(main())
