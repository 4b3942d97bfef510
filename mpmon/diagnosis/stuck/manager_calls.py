"""Which client of a manager waits in which method of its objects, from frames; shared by the rules about them."""

from __future__ import annotations

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.stacks.frames import bare, calls
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet

MANAGERS_FILE = "multiprocessing/managers.py"


def client_calls(stuck: StuckSet) -> dict[ThreadKey, str]:
    """The clients of a stuck set that wait, in a manager call, for another client's action, with the method they
    called.
    """
    if stuck.ending not in (Ending.OPEN, Ending.CYCLE):
        return {}
    served = stuck.members_in(Wait.OTHER_CLIENTS)
    if not served:
        return {}
    clients = [key for key in stuck.closed.members if key not in served and set(stuck.targets(key)) & set(served)]
    return {key: method(stuck, key) for key in clients}


def method(stuck: StuckSet, key: ThreadKey) -> str:
    """`put`, `get`, `acquire` …: the proxy's method, which calls `BaseProxy._callmethod`; empty if it is not seen."""
    stack = stuck.job.stacks.get(key)
    frames = stack.frames if stack else ()
    at = next((at for at, frame in enumerate(frames) if calls(frame, MANAGERS_FILE, ("_callmethod",))), None)
    return bare(frames[at + 1].function) if at is not None and at + 1 < len(frames) else ""
