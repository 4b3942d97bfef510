"""An event loop serves requests and watches two helpers, which read what it sends them."""

import json
import multiprocessing
import os
import asyncio
import sys


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

HELPER = "import sys\nfor line in sys.stdin: print(line, flush=True)"


async def run():
    pipe = asyncio.subprocess.PIPE
    helpers = [await asyncio.create_subprocess_exec(sys.executable, "-c", HELPER, stdin=pipe, stdout=pipe) for _ in range(2)]

    async def answer(reader, writer):
        helpers[0].stdin.write(await reader.readline())
        writer.write(await helpers[0].stdout.readline())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    say("settled")
    await asyncio.gather(server.serve_forever(), *(helper.wait() for helper in helpers))


def main():
    say("root")
    say("role", role="main")
    asyncio.run(run())


if __name__ == "__main__":
    main()
