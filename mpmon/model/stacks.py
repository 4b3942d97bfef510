"""Stacks of threads: Python's frames, and those of C and C++."""

from __future__ import annotations

import re
import zlib

from mpmon.model.columns import CallPlace, Moment, Pid, Row, Turn


class Frame(Row, frozen=True, kw_only=True):
    """One Python call. `function` is qualified from Python 3.11 on (`Thread.run`), bare before (`run`)."""

    function: str
    file: str
    line: int
    arguments_digest: int | None = None
    """Differs between calls with different argument objects; the values themselves are never kept."""
    locals_digest: int | None = None
    """Changes when a local variable that is not an argument is bound to another object."""
    plain: dict[str, int] | None = None
    """In the user's code, a digest of each local that is a plain number, string or `None`, by name: where ranks are at the
    same line, it shows which one has a different value, without keeping the value.
    """
    trend: dict[str, int] | None = None
    """Of the plain locals that are numbers and not what they were when this call was read before: 1 for a larger one, -1 for
    a smaller one."""
    known: dict[str, str] | None = None
    """The few locals of library frames mpmon may keep, e.g. `worker_id` of torch's worker loop; of a queue's feeder thread the
    type of `obj`.
    """
    is_entry: bool = False
    """The interpreter's C loop was entered with this frame; false for all frames if unknown."""
    loops: tuple[str, ...] | None = None
    """Of some calls of a rank in a collective that others are not in: the loops around the line in its function, outermost first,
    each with the line at which it begins, as the source says: `for 12`, `while 30`. `None`: it is not known.
    """
    tested: tuple[str, ...] = ()
    """With `loops`, in the user's code: names in the tests of the `if` statements on the way to it; `not rank` where the test
    fails, or where the variable is not the value it is compared with.
    """
    carried: tuple[str, ...] | None = None
    """Of a call of the user's in a task of a pool or loader that computes: the local variables that the loops around its line
    carry from one turn to the next, as the source says; `ONLY_COUNTED` before an attribute that they count and read nowhere;
    `UNSEEN` if something else may be carried; `BY_CLOCK` if one reads a clock. `None`: it is in no loop, or nobody asked.
    """
    ends: tuple[int, ...] = ()
    """In the user's code, the descriptors of connections and sockets that its variables are bound to, also in lists or by a
    method; of a queue's feeder thread, the one that it sends to.
    """
    own_ends: tuple[int, ...] | None = ()
    """The same for the attributes of its `self`, also in dictionaries; `None` where there are too many to search all."""
    unshared: bool = False
    """Of `Event.wait`: nothing but this call refers to the event, so it was made to wait for ever."""


UNSEEN, ONLY_COUNTED = "?", "~"
"""Of `Frame.carried`."""


SOURCE_NOT_KNOWN = (UNSEEN,)
"""Of `Frame.carried`: the source cannot be read, or has changed since the process began."""


PY_SPY, MPMON, BOTH = "py-spy", "mpmon", "mpmon and py-spy"
"""Readers of stacks."""


def variable_number(name: str) -> int:
    """What `Stack.contents` knows a variable by, larger than any place."""
    return zlib.crc32(name.encode()) | 1 << 32


CLOCK = -2
"""In `Stack.contents`, instead of the number of a variable: its call reads a clock, so its loop may end at a certain time."""


class Stack(Row, frozen=True, kw_only=True):
    """Python frames of one thread, innermost first."""

    pid: Pid
    tid: Pid
    thread_name: str
    taken_at: Moment
    ident: int | None = None
    """`threading.get_ident()`, the pthread id."""
    frames: tuple[Frame, ...]
    active: bool = False
    """It was running when read."""
    owns_gil: bool = False
    reader: str = PY_SPY
    """`BOTH` if two readers found the same calls and lines."""
    exact: bool = True
    """False when the thread ran while it was read, so that frames of different moments may be mixed."""
    place: CallPlace | None = None
    """For a main thread that did not run while its frames were read: where it was waiting."""
    turns: tuple[Turn, ...] | None = None
    """Of one that was found running twice, or twice in one collective: address and position of the iterators of its `for`
    loops, and the place of their frame, counted from the outermost. The position grows from turn to turn where it is known, as
    for lists, ranges and dictionaries; else it is -1. `None`: nobody asked.
    """
    contents: tuple[tuple[int, int, int], ...] | None = None
    """Of one that may go round in circles: place of a call, counted from the outermost, number of one of its variables (see
    `variable_number`), and a digest of what the variable leads to: numbers in attributes, how much containers hold, the
    memory of tensors on the CPU. The digest is -1 where that cannot be seen; the number is `CLOCK` of a call that looks at a
    clock. `None`: nobody asked.
    """
    tests: tuple[str, ...] | None = None
    """Of one that its own code has put to sleep in a loop: what this tests before it is left, as its source says: names of
    methods, of attributes with a dot before them, `?` for what is neither. Empty: it is never left. `None`: it is not known.
    """
    counts: tuple[tuple[int, int, int, dict[str, int]], ...] = ()
    """With `contents`, for its variables that lead to whole numbers: place and number as there, a digest of all but these
    numbers, and their sums by the attribute that leads to them, in which each has its own weight. Attributes are written with
    a dot before them; numbers that no attribute leads to, or too many, have no name.
    """
    acts: bool = False
    """With `tests`: each turn of its loop calls something besides what sleeps, counts, logs or asks others of the job, so that it
    may bring something in from outside.
    """
    only_sleeps: bool = False
    """With `tests`: its loop is never left, and does nothing but sleep, count and log, so it does nothing for others."""
    only_looks: bool = False
    """With `tests`: its loop ends once something is there, and until then does nothing but look for it, sleep, count and log."""
    other_work: bool = False
    """Of one whose own code waits with a time limit in a loop: in a turn in which nothing has come, the loop calls something
    besides what waits, looks, counts, logs or asks others of the job, so that it goes on whatever it waits for.
    """
    turning: tuple[int, ...] = ()
    """With `contents`: places of calls, counted from the outermost, that went back to an instruction further up while they
    were read: loops whose turns take microseconds.
    """
    matching: int | None = None
    """With `contents`: characters of the text that its innermost call matches with a regular expression, if it does."""
    wrote: int | None = None
    """With `contents`: bytes that the thread has handed to write(2) and the like since it began."""
    read: int | None = None
    """With `contents`: bytes that the thread has got from read(2) and the like since it began, among them all that comes
    through queues and connections of multiprocessing; what recv(2) gets is not among them.
    """
    limits: tuple[str, ...] | None = None
    """Of one whose own code sleeps, or waits with a short time limit, in a loop: the variables that this loop compares with a
    limit, attributes with a dot before them, a variable that is compared with a whole number followed by the number (`tries 5`),
    and `BY_CLOCK` if it reads a clock other than to log, as its source says. `None`: it is not known.
    """
    polls_for: tuple[str, ...] | None = None
    """With `limits`: the variables, and attributes with a dot before them, that lead to what the loop asks for, where it does
    nothing but wait, look, log, count and note the time, and what ends it depends on none of that, as its source says; `None`
    for any other loop.
    """
    keeps_books: bool = False
    """With `limits`: the loop is never left, and does nothing but sleep, look, count, note the time, and tell others of that, as
    its source says: a heartbeat.
    """
    books: tuple[str, ...] = ()
    """With `limits`: what the loop changes that others may ask for, by the same kind of names: attributes, what items are in,
    names of a module, and what names the files that it writes; without what it only sets to the time.
    """
    tells: tuple[str, ...] = ()
    """With `limits`: the variables, and attributes with a dot before them, that lead to queues and connections over which the
    loop sends something.
    """


BY_CLOCK = "clock()"
"""Of `Stack.limits`."""


CLOCKS = frozenset({
    "monotonic", "monotonic_ns", "now", "perf_counter", "perf_counter_ns", "process_time", "time", "time_ns", "utcnow",
})  # fmt: skip
"""Functions that read a clock: of time and datetime."""


SENT_CODE = "<dynamic-code>"
"""File of code that cloudpickle sent from another process by value, where nothing tells in which file it was written."""


USERS_WITHOUT_FILE = re.compile(rf"<(stdin|console|python-input-\d+|ipython-input-[^>]*)>|{re.escape(SENT_CODE)}")
"""Files of the user's code that are none: typed into a Python (Modules/main.c, Lib/code.py, Lib/_pyrepl/simple_interact.py) or
IPython (IPython/core/compilerop.py), or sent.  Any other name in angle brackets is the interpreter's, or of generated code.
"""


class NativeFrame(Row, frozen=True, kw_only=True):
    """One call of a function of C or C++."""

    library: str | None = None
    """The mapped file; `None` for code without a file."""
    build_id: str | None = None
    offset: int
    """Its offset in the file (for addr2line(1)); the address itself if there is no file."""
    function: str | None = None
    """The symbol; `None` if the file has none for it."""
    name: str | None = None
    """The readable name: demangled, without parameters and template arguments."""
    inside: int | None = None
    """Offset from the beginning of the function in bytes; `None` if unknown."""
    how: str
    """How it was found: `registers` (the innermost one: the kernel tells it), `frame information` (told, nothing was assumed),
    `prologue` (derived: the code of the frame below tells how deep that is), `frame pointer`, or `search` (the nearest word
    on the stack that is a return address of a call that may have led there), `sample` (the innermost one of a thread that ran:
    perf told where it stood in one moment).
    """
    proof: int | None = None
    """Of one that was not told, what proves it: 3, the call before its return address names the function below; 2, it calls
    one that jumps to the function below; 1, it is a call through a register or memory.
    """

    @property
    def is_told(self) -> bool:
        """It was reported, or derived and confirmed by the call: not a guess."""
        return self.is_certain or self.how == "sample"

    @property
    def is_certain(self) -> bool:
        """A diagnosis may use it: it is neither a guess nor a momentary sample."""
        return self.how in ("registers", "frame information", "prologue")


class NativeStack(Row, frozen=True, kw_only=True):
    """C and C++ frames of one thread, innermost first, read while it slept, or sampled at one moment while it ran."""

    pid: Pid
    tid: Pid
    taken_at: Moment
    frames: tuple[NativeFrame, ...] = ()
    end: str
    """Why there are no more: `start` (all are there), `lost` (from there on nothing is known), `bounded` (more frames, or more
    work, than is allowed), `running` (it was on a CPU), `moved` (it ran while it was read, twice), `refused` (it may not be
    read, or is of a kind that is not understood).
    """
    why: str | None = None
    """Details of that, as the rest of a sentence."""
    seconds: float = 0.0
    """Time mpmon spent on it."""

    @property
    def is_complete(self) -> bool:
        """All frames are there."""
        return self.end == "start"

    @property
    def is_sample(self) -> bool:
        """It is one moment of a running thread: it shows what the thread does, not what it waits for."""
        return bool(self.frames) and self.frames[0].how == "sample"
