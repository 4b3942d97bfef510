"""A client of a kernel waits for the end of its first cell after it has dropped that message while it waited for the second."""

import json
import os

from jupyter_client import KernelManager


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def finish(client, request):
    """Wait until a cell is done."""
    while True:
        message = client.get_iopub_msg()  # CULPRIT
        if message["parent_header"].get("msg_id") == request and message["content"].get("execution_state") == "idle":
            return


def main():
    say("root")
    say("role", role="main")
    os.environ["IPYTHONDIR"] = os.path.abspath("settings")
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel()
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=90)
    first, second = (client.execute(cell) for cell in ("import math", "math.pi"))
    finish(client, second)
    say("culprit")
    say("settled")
    finish(client, first)  # CULPRIT


if __name__ == "__main__":
    main()
