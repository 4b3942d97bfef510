"""How a frame was found, what proves it, and why the stack ends: values of `NativeFrame` and `NativeStack`."""

from __future__ import annotations

START = "start"
"""All frames are there, up to the one in which the thread began."""
LOST = "lost"
"""The next caller could not be found."""
BOUNDED = "bounded"
"""There are more frames than allowed, or it would have taken more work than allowed."""
RUNNING = "running"
"""The thread was on a CPU."""
MOVED = "moved"
"""The thread ran while it was read, twice."""
REFUSED = "refused"
"""The thread cannot be read, or its processor is not supported."""

REGISTERS = "registers"
"""The innermost frame of a sleeping thread: reported by the kernel."""
FRAME_INFORMATION = "frame information"
"""From the frame information of the frame below; nothing was assumed."""
PROLOGUE = "prologue"
"""A register was not known: the size of the frame below was read from its prologue."""
FRAME_POINTER = "frame pointer"
"""The function below has no frame information; its frame pointer led to the call."""
SAMPLE = "sample"
"""The innermost frame of a running thread: copied by the kernel at one moment."""
SEARCH = "search"
"""The nearest word on the stack that is the return address of a call that may have led there."""

NAMES_IT, JUMPS_TO_IT, MAY_BE = 3, 2, 1
"""What proves a frame that does not come from frame information: the call before its return address names the function below;
it calls a function that jumps to the function below; it is a call through a register or memory."""
