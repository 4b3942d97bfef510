"""How a frame was found, what proves it, and why there are no more: values of `NativeFrame` and `NativeStack`."""

from __future__ import annotations

START = "start"
"""All frames are there, up to the one in which the thread began."""
LOST = "lost"
"""From there on nothing is known."""
BOUNDED = "bounded"
"""There are more frames, or it would have taken more work, than is allowed."""
RUNNING = "running"
"""It was on a CPU."""
MOVED = "moved"
"""It ran while it was read, twice."""
REFUSED = "refused"
"""It cannot be read, or is of a kind that is not understood."""

REGISTERS = "registers"
"""The innermost frame: the kernel tells where the thread stands."""
FRAME_INFORMATION = "frame information"
"""The frame below told, and nothing was assumed."""
PROLOGUE = "prologue"
"""A register was not known: how deep the frame below is was read from the code with which it begins."""
FRAME_POINTER = "frame pointer"
"""The function below has no frame information, and its frame pointer led to the call."""
SAMPLE = "sample"
"""The innermost frame of a thread that ran: the kernel told where it stood in one moment."""
SEARCH = "search"
"""The nearest word on the stack that is a return address of a call that may have led there."""

NAMES_IT, JUMPS_TO_IT, MAY_BE = 3, 2, 1
"""What proves a frame that was not told: the call before its return address names the function below; it calls one that
jumps to the function below; it is a call through a register or memory."""
