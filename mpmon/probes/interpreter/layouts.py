"""Offsets of the fields of CPython's structures, in bytes, by minor version (x86-64 and aarch64, build with the GIL).

Taken from the headers of the versions (Include/internal/pycore_*.h, Include/cpython/*.h, Modules/_threadmodule.c).
Within a minor version they do not move. A differing build (free threading, reference tracing) shows in
`_Py_DebugOffsets`, which the interpreter publishes from 3.13 on: the offsets there take precedence.
"""

from __future__ import annotations

import msgspec


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of one version of CPython."""

    version: tuple[int, int]
    interpreters: int
    """`_PyRuntime.interpreters.head`."""
    threads: int
    """PyInterpreterState to its first PyThreadState."""
    modules: int | None = None
    """PyInterpreterState to `sys.modules`; from 3.13 on the interpreter publishes it."""
    next_interpreter: int = 0
    gil: int
    """PyInterpreterState to the pointer to its `_gil_runtime_state`; in 3.10 and 3.11 `_PyRuntime` to that state itself."""
    gil_state: int = 0
    """The base of the next two offsets."""
    gil_holder: int = 8
    gil_locked: int = 16
    next_thread: int = 8
    interpreter: int = 16
    """PyThreadState to its interpreter."""
    ident: int
    native_id: int | None
    """`PyThreadState.native_thread_id`, from 3.11 on."""
    frame: int
    """PyThreadState to its innermost frame."""
    running_loop: int = 0
    """PyThreadState to the event loop of asyncio that the thread runs; before 3.13 to the dictionary (`dict`) it is in."""
    frame_through: int | None = None
    """3.11 and 3.12: PyThreadState leads to a `_PyCFrame`, which has the frame at this offset."""
    datastack: int | None = None
    """PyThreadState to the chunk of its newest frames, followed by the chunk's end; frames of 3.10 lie anywhere."""
    previous: int
    code: int
    instruction: int
    """The current instruction of a frame; in 3.10 `f_lasti`, an index."""
    local_variables: int
    """The first of the frame's variables; the value stack follows them."""
    owner: int | None = None
    shim: int = 3
    """Frames whose owner is at least this belong to C code (`FRAME_OWNED_BY_CSTACK`)."""
    entry: int | None = None
    """3.11: whether the interpreter's loop was entered with a frame; in 3.10 it is entered with each."""
    generator: int | None = None
    """Before 3.12: marks a frame as a generator's: in 3.10 the pointer `f_gen`, in 3.11 the owner."""
    global_variables: int
    """Frame to the dictionary of its module."""
    stack_pointer: int | None = None
    """3.14: top of the value stack of a frame that made a call."""
    blocks: int | None = None
    """3.10: `f_blockstack`, after the number of its blocks `f_iblock`, the byte `f_state` and padding."""
    value_stack: int | None = None
    """3.10: `f_valuestack`."""
    variables: int
    """PyCodeObject to the number of its variables."""
    local_count: int
    """The same without those that only nested functions use (`co_nlocals`)."""
    arguments: int
    """`co_argcount`."""
    own_references: int = 1
    """References to an object that a running call of its method has; in 3.10 its caller has another."""
    local_names: int
    first_line: int
    lines: int
    """The line table; a code object never changes up to and including this field."""
    counter: int | None = None
    """3.11: 4 bytes that change (`co_warmup`) within the otherwise constant part of a code object."""
    stack_size: int
    name: int
    qualified_name: int
    """The same as `name` before 3.11."""
    file: int
    names: int = 32
    """PyCodeObject to the names that it looks up: globals, attributes, methods."""
    exceptions: int | None = None
    instructions: int
    """PyCodeObject to its first instruction; in 3.10 `co_code`, a pointer to the `bytes` that hold the instructions."""
    back_jumps: tuple[int, ...] = ()
    """Opcodes of backward jumps (Include/opcode.h); empty if unknown."""
    text: int
    """Characters of a compact ASCII string."""
    wide_text: int
    """Characters of any other compact string; in a string of a subclass, the pointer to its characters."""
    tuple_items: int = 24
    cached_keys: int
    """`PyHeapTypeObject.ht_cached_keys`."""
    coroutine_state: int | None = None
    """PyGenObject to the byte with its running state; in 3.10 its frame to it. `None`: task layout unknown."""
    coroutine_frame: int = 0
    """PyGenObject to its frame; in 3.10 to the pointer to its frame."""
    stack_depth: int = 0
    """Suspended frame to the size of its variables and value stack together; in 3.10 of the value stack alone."""
    future_state: int = 0
    """`FutureObj` and `TaskObj` of Modules/_asynciomodule.c to their state; 0 while pending."""
    task_waiter: int = 0
    """`TaskObj` to the future it waits for; coroutine and name follow."""
    lock_word: bool = True
    """Before 3.14: a lock holds a pointer to a semaphore, and waiters sleep on the semaphore's first word."""


TABLE: dict[tuple[int, int], Layout] = {
    layout.version: layout
    for layout in (
        Layout(
            version=(3, 10), interpreters=32, gil=352, threads=8, modules=856, ident=176, native_id=None, frame=24,
            previous=24, code=32, instruction=96, local_variables=352, global_variables=48, generator=88,
            blocks=112, value_stack=64, variables=28, local_count=28, arguments=16, own_references=2, local_names=72,
            first_line=40, lines=120, instructions=48, back_jumps=(113,), stack_size=32, name=112, qualified_name=112,
            file=104, names=64, text=48, wide_text=72, cached_keys=872,
            running_loop=152, coroutine_state=108, coroutine_frame=16, stack_depth=80, future_state=88, task_waiter=152,
        ),
        Layout(
            version=(3, 11), interpreters=40, gil=360, threads=16, modules=888, ident=152, native_id=160, frame=56,
            frame_through=8, datastack=296, previous=48, code=32, instruction=56, local_variables=72, global_variables=8,
            entry=68, generator=69, variables=76, local_count=80, arguments=56, local_names=96, first_line=72,
            lines=136, counter=52, stack_size=68, name=120, qualified_name=128, file=112, exceptions=40, instructions=184,
            back_jumps=(38, 140, 173, 174, 175, 176),
            text=48, wide_text=72, cached_keys=872,
            running_loop=128, coroutine_state=75, coroutine_frame=80, stack_depth=64, future_state=88, task_waiter=128,
        ),
        Layout(
            version=(3, 12), interpreters=40, gil=384, threads=72, modules=944, ident=136, native_id=144, frame=56,
            frame_through=0, datastack=232, previous=8, code=0, instruction=56, local_variables=72, global_variables=24,
            owner=70, variables=72, local_count=80, arguments=52, local_names=96, first_line=68, lines=136,
            stack_size=64, name=120, qualified_name=128, file=112, exceptions=40, instructions=192, back_jumps=(140,),
            text=40, wide_text=56, cached_keys=880,
            running_loop=112, coroutine_state=67, coroutine_frame=72, stack_depth=64, future_state=88, task_waiter=128,
        ),
        Layout(
            version=(3, 13), interpreters=632, next_interpreter=7264, gil=16, threads=7344, ident=152, native_id=160,
            frame=72, datastack=232, previous=8, code=0, instruction=56, local_variables=72, global_variables=24, owner=70,
            variables=72, local_count=80, arguments=52, local_names=96, first_line=68, lines=136,
            stack_size=64, name=120, qualified_name=128, file=112, exceptions=40, instructions=200, back_jumps=(77,),
            text=40, wide_text=56, cached_keys=880,
            running_loop=304, coroutine_state=67, coroutine_frame=72, stack_depth=64, future_state=96, task_waiter=112,
        ),
        Layout(
            version=(3, 14), interpreters=808, next_interpreter=7264, gil=16, threads=7344, ident=152, native_id=160,
            frame=72, datastack=232, previous=8, code=0, instruction=56, local_variables=80, global_variables=24, owner=74,
            stack_pointer=64, variables=72, local_count=80, arguments=52, local_names=96, first_line=68, lines=136,
            stack_size=64, name=120, qualified_name=128, file=112, exceptions=40, instructions=208,
            text=40, wide_text=56, cached_keys=880, lock_word=False, tuple_items=32,
        ),
    )
}  # fmt: skip

COOKIE = b"xdebugpy"
"""The beginning of `_Py_DebugOffsets`, followed by the version and the free-threading flag."""

_RUNTIME = "size finalizing interpreters"
_THREAD = "size previous_thread next_thread interpreter frame ident native_id datastack status"
_GIL = "gil gil_state gil_enabled gil_locked gil_holder"
_FRAME = "size previous code instruction local_variables owner"
_CODE = "size file name qualified_name lines first_line arguments local_names kinds instructions"


def _words(*structures: str) -> tuple[str, ...]:
    return tuple(" ".join(structures).split())


PUBLISHED: dict[tuple[int, int], tuple[str, ...]] = {
    (3, 13): _words(_RUNTIME, "size id next_interpreter threads gc modules sysdict builtins", _GIL, _THREAD, _FRAME, _CODE),
    (3, 14): _words(
        _RUNTIME, "size id next_interpreter threads main gc modules sysdict builtins", _GIL, "code_generation tlbc_generation",
        _THREAD, _FRAME, "stack_pointer tlbc_index", _CODE,
    ),
}  # fmt: skip
"""The words of `_Py_DebugOffsets` after its head (pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14)."""

FARTHEST = 1 << 20
"""Largest offset of a field from the beginning of its structure, bytes."""


def with_published(layout: Layout, words: tuple[int, ...]) -> Layout | None:
    """The layout with the published offsets; `None` if they are impossible."""
    known = {name: word for name, word in zip(PUBLISHED[layout.version], words, strict=True) if name in _FIELDS}
    if any(word >= FARTHEST for word in known.values()):
        return None
    return msgspec.structs.replace(layout, **known)


_FIELDS = frozenset(Layout.__struct_fields__)
