"""Allocates GPU memory with nothing but the driver's own library; answers each command line with a line of JSON.

`context`; `take MIB`; `export`: the handle of the last allocation; `import HANDLE`; `fork`: a child that only waits.
Functions and layouts are those of cuda.h.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
from typing import Any

LIBRARY = "libcuda.so.1"
LAZY_PEER_ACCESS = 1
"""CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS."""


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class Cuda:
    """The driver's library on its first device."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._taken: list[ctypes.c_uint64] = []
        self.call("cuInit", ctypes.c_uint(0))

    def context(self) -> dict[str, Any]:
        """Create a context."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        return {}

    def take(self, mib: str) -> dict[str, Any]:
        """Allocate memory and write to it."""
        at, size = ctypes.c_uint64(), ctypes.c_size_t(int(mib) << 20)
        self.call("cuMemAlloc_v2", ctypes.byref(at), size)
        self.call("cuMemsetD8_v2", at, ctypes.c_ubyte(1), size)
        self.call("cuCtxSynchronize")
        self._taken.append(at)
        return {}

    def export(self) -> dict[str, Any]:
        """The handle of the last allocation."""
        handle = IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), self._taken[-1])
        return {"handle": bytes(handle).hex()}

    def imported(self, handle: str) -> dict[str, Any]:
        """Open the memory of another process."""
        at = ctypes.c_uint64()
        given = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(at), given, ctypes.c_uint(LAZY_PEER_ACCESS))
        return {}

    def call(self, name: str, *arguments: Any) -> None:
        """Raises: RuntimeError."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: error {code}")


def fork() -> dict[str, Any]:
    """Fork a child that inherits everything open, and exits when our standard input is closed."""
    child = os.fork()
    if child == 0:
        os.close(1)
        told = select.poll()
        told.register(0, 0)  # the end of a pipe (POLLHUP) is always reported
        told.poll()
        os._exit(0)
    return {"child": child}


def main() -> None:
    """Answer each command line."""
    cuda = Cuda()
    does = {"context": cuda.context, "take": cuda.take, "export": cuda.export, "import": cuda.imported, "fork": fork}
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        word, *more = line.split()
        print(json.dumps(does[word](*more)), flush=True)


if __name__ == "__main__":
    main()
