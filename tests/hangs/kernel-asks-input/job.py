"""Runs the cells of a notebook one after the other in a kernel."""

import json
import os

from jupyter_client.manager import start_new_kernel

TRUTH = os.environ.get("CORPUS_TRUTH", os.devnull)
CELLS = [
    "table = {'rows': 12}",
    "import json, os\n"
    "def ask(question):\n"
    "    with open(os.environ.get('CORPUS_TRUTH', os.devnull), 'a') as f:\n"
    "        for event in ('role', 'culprit', 'settled'): print(json.dumps({'event': event, 'role': 'subprocess', 'pid': os.getpid()}), file=f)\n"
    "    return input(question)\n"
    "table['name'] = ask('name of the table: ')",
    "print(table)",
]


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(TRUTH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def run(client, cell):
    request = client.execute(cell)
    while True:
        message = client.get_iopub_msg()
        if message["parent_header"].get("msg_id") == request and message["content"].get("execution_state") == "idle":
            return


def main():
    truth("root"), truth("role", role="main")
    manager, client = start_new_kernel(startup_timeout=90)
    for cell in CELLS:
        run(client, cell)
    manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
