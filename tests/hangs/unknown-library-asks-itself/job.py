"""A process of a library that mpmon does not know asks its own process, and looks again and again for the answer."""

import json
import os
import sys
import tempfile

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

LIBRARY = """
import multiprocessing
import os
import tempfile
import time

folder = tempfile.mkdtemp()


def call(function):
    name = f"{function.__name__}-{os.getpid()}"
    with open(f"{folder}/{name}.asked", "w"):
        pass
    while not os.path.exists(f"{folder}/{name}.done"):
        time.sleep(0.1)


def serve(functions):
    while True:
        asked = [name for name in os.listdir(folder) if name.endswith(".asked")]
        for name in asked:
            os.unlink(f"{folder}/{name}")
            functions[name.partition("-")[0]]()
            with open(f"{folder}/{name[:-6]}.done", "w"):
                pass
        time.sleep(0.1)


def start(functions):
    multiprocessing.get_context("fork").Process(target=serve, args=(functions,), daemon=True).start()
"""


def library():
    """A library that nobody has heard of, where libraries are."""
    packages = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.makedirs(os.path.join(packages, "handmade"))
    with open(os.path.join(packages, "handmade", "__init__.py"), "w") as file:
        file.write(LIBRARY)
    sys.path.insert(0, packages)
    return __import__("handmade")


def inner():
    pass


def outer():
    truth("role", role="process")
    truth("culprit")
    truth("settled")
    handmade.call(inner)  # CULPRIT


truth("root")
handmade = library()
handmade.start({"inner": inner, "outer": outer})
handmade.call(outer)
