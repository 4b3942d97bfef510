"""A cell of a notebook waits for the answer to a dialog, which its kernel handles once the cell has ended."""

import json
import os
import threading

from jupyter_client import KernelManager
from comm import create_comm

def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def confirm(question):
    """Show a dialog, and return what was clicked."""
    answered = threading.Event()
    dialog = create_comm(target_name="confirm", data={"question": question})
    dialog.on_msg(lambda message: answered.set())
    say("role", role="subprocess")
    say("culprit")
    say("settled")
    answered.wait()  # CULPRIT


def show(kernel):
    """What a notebook does: run a cell, and show what comes until it is done."""
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=90)
    client.execute("import job; job.confirm('Drop the table?')")
    while True:
        message = client.get_iopub_msg()
        if message["msg_type"] == "comm_open":
            client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": message["content"]["comm_id"], "data": {}}))


def main():
    say("root")
    say("role", role="main")
    os.environ["IPYTHONDIR"] = os.path.abspath("settings")
    kernel = KernelManager(kernel_name="python3")
    kernel.start_kernel()
    show(kernel)


if __name__ == "__main__":
    main()
