"""Which client of a manager waits in which method of its objects, from frames: the ground the rules about them share."""

from __future__ import annotations

from mpmon.diagnosis.frames import bare, calls
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot
from mpmon.diagnosis.waits import ENDS, Wait

MANAGERS_FILE = "multiprocessing/managers.py"


def client_calls(knot: Knot) -> dict[ThreadKey, str]:
    """The clients of a knot whose call of a manager waits for what another client does, with the method they called."""
    if knot.ending not in (Ending.OPEN, Ending.CYCLE):
        return {}
    served = knot.members_in(Wait.OTHER_CLIENTS)
    if not served:
        return {}
    clients = [key for key in knot.closed.members if key not in served and set(knot.targets(key)) & set(served)]
    return {key: method(knot, key) for key in clients}


def method(knot: Knot, key: ThreadKey) -> str:
    """`put`, `get`, `acquire` …: the proxy's method, which calls `BaseProxy._callmethod`; empty where it is not seen."""
    stack = knot.case.stacks.get(key)
    frames = stack.frames if stack else ()
    at = next((at for at, frame in enumerate(frames) if calls(frame, MANAGERS_FILE, ("_callmethod",))), None)
    return bare(frames[at + 1].function) if at is not None and at + 1 < len(frames) else ""


def those_who_only_wait(knot: Knot) -> tuple[ThreadKey, ...]:
    """Members that wait for the end of others."""
    return tuple(knot.members_in(*ENDS))
