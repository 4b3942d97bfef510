"""Programs that stand in for ssh, srun, squeue, scontrol and kubectl: `standin.py PROGRAM ARGUMENTS`.

They run agents on this machine and bring what the real ones bring: login messages, labels, lines that are cut at 1 kB,
complaints.  The name of a node says how it is.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading

from mpmon import __version__
from mpmon.nodes.wire import Beat, Hello, JobHere, frames

CUT = 1024

COMPLAINTS = {
    "dead": (255, "ssh: connect to host dead port 22: Connection timed out"),
    "strange": (255, "Host key verification failed."),
    "locked": (255, "root@locked: Permission denied (publickey,password)."),
    "unknown": (255, "ssh: Could not resolve hostname unknown: Name or service not known"),
    "bare": (127, "/bin/sh: 1: exec: mpmon: not found"),
    "denied": (1, 'Error from server (Forbidden): pods "denied" is forbidden: User cannot create resource "pods/exec"'),
}


def be_node(name: str, words: list[str]) -> None:
    """What is at the other end."""
    if name.rstrip("0123456789") in COMPLAINTS:
        status, said = COMPLAINTS[name.rstrip("0123456789")]
        sys.exit(print(said, file=sys.stderr) or status)
    if name == "garbage":
        pour(b"I am no mpmon\n" * 1000)
    if name == "endless":
        pour(b"x" * 4096)
    if name in ("turncoat", "babbler"):
        # It begins like an agent.
        os.write(1, b"".join(frames(1, Hello(version=__version__, host=name, jobs=(JobHere(root=7),)))))
        beats = (b"".join(frames(number, Beat(clock=1.0))) for number in itertools.count(2))
        for chunk in itertools.repeat(b"I am no mpmon\n" * 1000) if name == "turncoat" else beats:
            pour_once(chunk)
    if name == "old":
        os.write(1, b"".join(frames(1, Hello(version="0.0.1", host=name))))
        sys.stdin.read()
        return
    if name == "brief":
        os.write(1, b"".join(frames(1, Hello(version=__version__, host=name, jobs=(JobHere(root=7),)))))
        return
    if name == "newer":
        os.write(1, b"@mpmon.nodes/2 hello\n")
        sys.stdin.read()
        return
    if name == "skewed":
        # Python imports it before anything else.
        os.environ["PYTHONPATH"] = os.environ["STANDIN_CLOCK"]
        name = "good"
    if name == "mute":
        sys.stdin.read()
        return
    os.write(1, b"\n*** Welcome ***\nLast login: never\n$ ")
    os.execvp(words[0], words)


def pour(chunk: bytes) -> None:
    while True:
        pour_once(chunk)


def pour_once(chunk: bytes) -> None:
    try:
        os.write(1, chunk)
    except BrokenPipeError:
        sys.exit(1)


def ssh(words: list[str]) -> None:
    node, command = words[words.index("--") + 1 :]
    be_node(node, ["/bin/sh", "-c", command])


def squeue(words: list[str]) -> None:
    job = next(word.partition("=")[2] for word in words if word.startswith("--jobs="))
    states = {"7": "RUNNING", "8": "PENDING"}
    if job not in states:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print(f"{job}|{states[job]}|{os.environ['STANDIN_NODES']}")


def scontrol(words: list[str]) -> None:
    print("\n".join(words[-1].split(",")))


def srun(words: list[str]) -> None:
    """All nodes at once: what comes goes to each, what they say gets a label and is cut."""
    command = words[words.index("/bin/sh") :]
    nodes = os.environ["STANDIN_NODES"].split(",")
    if os.environ["STANDIN_NODES"] == "foreign":
        sys.exit("srun: error: Unable to create step for job 7: Access/permission denied")
    me = [sys.executable, "-m", "tests.nodes.standin", "node"]
    tasks = [
        subprocess.Popen([*me, node, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for node in nodes
    ]
    writing = threading.Lock()
    copiers = [
        threading.Thread(target=copy, args=(number, stream, to, writing))
        for number, task in enumerate(tasks)
        for stream, to in ((task.stdout, 1), (task.stderr, 2))
    ]
    for copier in copiers:
        copier.start()
    while chunk := os.read(0, 65536):
        for task in tasks:
            with contextlib.suppress(BrokenPipeError):
                os.write(task.stdin.fileno(), chunk)
    for task in tasks:
        task.stdin.close()
    for copier in copiers:
        copier.join()
    sys.exit(max(task.wait() for task in tasks))


def copy(number: int, stream, to: int, writing: threading.Lock) -> None:
    for line in stream:
        for at in range(0, len(line), CUT):
            with writing:
                os.write(to, b"%d: %s\n" % (number, line[at : at + CUT].rstrip(b"\n")))


def kubectl(words: list[str]) -> None:
    if words[0] == "get":
        nodes = os.environ["STANDIN_NODES"].split(",")
        pods = [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in nodes if name]
        print(json.dumps({"items": pods}))
        return
    end = words.index("--")
    names = [word for word in words[1:end] if not word.startswith("-")]
    be_node(names[0], words[end + 1 :])


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    if program == "node":
        be_node(arguments[0], arguments[1:])
    else:
        {"ssh": ssh, "squeue": squeue, "scontrol": scontrol, "srun": srun, "kubectl": kubectl}[program](arguments)
