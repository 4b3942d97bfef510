"""Calls of NVML: the functions of libnvidia-ml.so.1, which nvidia-ml-py loads, by name and with their return codes.

Functions are called through ctypes and not through the wrappers of nvidia-ml-py, which create an object for every entry of
every list, and do not allow what is needed here: buffers larger than requested.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from mpmon.probes.nvml.words import FUNCTION_NOT_FOUND, SUCCESS, UNKNOWN, field_words

NAME = "libnvidia-ml.so.1"

FINDER = "_nvmlGetFunctionPointer"
"""nvidia-ml-py's function that looks up a symbol; the deprecated package `pynvml`, whose module has the same name, lacks it."""

TEXT_BYTES = 96
"""Buffer size for a name or a UUID; nvml.h asks for at most this."""

NO_NUMBER, NO_LONG_NUMBER = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
"""All ones: NVML_VALUE_NOT_AVAILABLE."""

Handle = ctypes.c_void_p

_ANCHOR = time.time() - time.monotonic()


class NoValue(Exception):
    """A call returned an error, or the marker for no value; the message says it in plain words."""

    def __init__(self, reason: str, code: int = SUCCESS) -> None:
        super().__init__(reason)
        self.code = code


class Functions:
    """The functions of the loaded shared object."""

    def __init__(self) -> None:
        self._found: dict[str, Callable[..., int] | None] = {}

    def start(self) -> int:
        """Load and initialise the library; returns the return code."""
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as problem:
            return int(getattr(problem, "value", UNKNOWN))
        return SUCCESS

    def named(self, name: str) -> Callable[..., int] | None:
        """The function; `None` if this driver does not have it."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Callable[..., int] | None:
        import pynvml

        try:
            return getattr(pynvml, FINDER)(name)
        except pynvml.NVMLError:
            return None


class Caller:
    """Makes the calls of one thread, and lets another thread see which of them has not returned."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._since: float | None = None
        self.call = ""
        """Name of the last call."""

    @property
    def waited_s(self) -> float:
        """How long the current call has been running; 0 between calls."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def since(self) -> float:
        """When the current call began, else now; seconds since the epoch."""
        since = self._since
        return _ANCHOR + (time.monotonic() if since is None else since)

    def start(self) -> int:
        """Load and initialise the library; the return code."""
        self.call, self._since = "nvmlInitWithFlags", time.monotonic()
        try:
            return self._functions.start()
        finally:
            self._since = None

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function; its return code."""
        function = self._functions.named(name)
        if function is None:
            return FUNCTION_NOT_FOUND
        self.call, self._since = name, time.monotonic()
        code = function(*arguments)
        self._since = None
        return code

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            NoValue: it returned an error.
        """
        code = self.code(name, *arguments)
        if code != SUCCESS:
            raise NoValue(field_words(code), code)

    def number(self, name: str, *arguments: Any) -> int:
        """The 32-bit number a function writes to its last argument.

        Raises:
            NoValue: it returned an error, or no number.
        """
        out = ctypes.c_uint32()
        self.check(name, *arguments, ctypes.byref(out))
        if out.value == NO_NUMBER:
            raise NoValue("the driver gives no value")
        return out.value

    def long_number(self, name: str, *arguments: Any) -> int:
        """As `number`, for 64 bits.

        Raises:
            NoValue: it returned an error, or no number.
        """
        out = ctypes.c_uint64()
        self.check(name, *arguments, ctypes.byref(out))
        if out.value == NO_LONG_NUMBER:
            raise NoValue("the driver gives no value")
        return out.value

    def text(self, name: str, *arguments: Any) -> str:
        """The text a function writes.

        Raises:
            NoValue: it returned an error.
        """
        out = ctypes.create_string_buffer(TEXT_BYTES)
        self.check(name, *arguments, out, ctypes.c_uint(TEXT_BYTES))
        return out.value.decode("utf-8", "replace")

    def handle(self, name: str, *arguments: Any) -> Handle:
        """The handle a function writes.

        Raises:
            NoValue: it returned an error.
        """
        out = Handle()
        self.check(name, *arguments, ctypes.byref(out))
        return out
