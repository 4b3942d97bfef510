"""Inside of gdb: the frames of all threads as JSON, without those that are not on the stack (inlined, tail calls)."""

import contextlib
import json

import gdb

MASK = (1 << 64) - 1

for setting in ("pagination off", "backtrace past-main on", "backtrace past-entry off", "debuginfod enabled off"):
    # An older gdb does not know all of them.
    with contextlib.suppress(gdb.error):
        gdb.execute("set " + setting)

found = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames, frame = [], gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            frames.append([int(frame.pc()), int(frame.read_register("sp")) & MASK])
        try:
            frame = frame.older()
        except gdb.error:
            break
    found[thread.ptid[1]] = frames
print("\nTRUTH" + json.dumps(found))
