"""Where something may go wrong in a job: at places that do as they should until the test gives an order for one of them."""

import json
import os
import pathlib

FOLDER = pathlib.Path(os.environ["ORDERS"])
DATA = FOLDER / "data"


def ordered(kind):
    """Whether this process, the first that comes to such a place, is to do it wrong; it leaves its pid."""
    try:
        os.rename(FOLDER / kind, FOLDER / f"{kind}.{os.getpid()}")
    except FileNotFoundError:
        return False
    return True


def say(**facts):
    with open(os.environ["READY"], "w") as pipe:
        pipe.write(json.dumps(facts) + "\n")


def compute(amount):
    return sum(number * number for number in range(amount))
