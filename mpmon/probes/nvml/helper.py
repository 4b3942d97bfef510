"""The helper's main thread: receives requests, answers with what is known, never calls the driver itself.

It is started by `mpmon.probes.nvml.child` with the settings as its argument, and ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import msgspec

from mpmon.model import Gpu, GpuProcess, MigInstance
from mpmon.probes.nvml import suspended, words
from mpmon.probes.nvml.calls import FINDER, NAME, Caller, Functions, NoValue
from mpmon.probes.nvml.device import Device
from mpmon.probes.nvml.events import Events
from mpmon.probes.nvml.tasks import Task, TaskRunner
from mpmon.probes.nvml.wire import Ask, Look, Settings
from mpmon.start import end_with


class Driver:
    """The library once it is initialised, or why it is not."""

    def __init__(self, settings: Settings) -> None:
        self.functions = Functions()
        self.version: str | None = None
        self.devices: tuple[Device, ...] | None = None
        self.trouble: Look | None = None
        """What to answer instead."""
        self._settings = settings
        self._retry_at = 0.0
        self._gpus = suspended.gpus(settings.pci)

    def may_start(self) -> bool:
        """Whether it is worth a try, and would wake no GPU."""
        if suspended.all_sleep(self._gpus):
            self.trouble = Look(problem=words.SLEEP, harmless=True)
            return False
        if self.trouble is None or self.trouble.problem == words.SLEEP:
            self.trouble = self._missing()
        return self.trouble is None or (not self.trouble.final and time.monotonic() >= self._retry_at)

    def start(self, call: Caller) -> None:
        """Initialise the library and count the devices."""
        code = call.start()
        if code:
            self._retry_at = time.monotonic() + self._settings.retry_s
            self.trouble = self._refused(code)
            return
        try:
            count = call.number("nvmlDeviceGetCount_v2")
            self.version = call.text("nvmlSystemGetDriverVersion")
        except NoValue as why:
            self.trouble = Look(problem=f"the NVIDIA driver does not say which GPUs there are: {why}", final=True)
            return
        self.trouble = None
        self.devices = tuple(Device(index, self._settings) for index in range(count))

    def _missing(self) -> Look | None:
        """The answer for a missing prerequisite; `None` if all are there."""
        try:
            ctypes.CDLL(NAME)
        except OSError as problem:
            if "No such file" not in str(problem):
                return Look(problem=f"the NVIDIA driver's library cannot be loaded: {problem}", final=True)
            if os.path.exists("/dev/nvidiactl"):
                return Look(problem=words.NO_LIBRARY_BUT_DEVICES, final=True)
            return Look(problem=words.NO_LIBRARY, harmless=True, final=True)
        try:
            import pynvml
        except ImportError:
            return Look(problem=words.NOT_INSTALLED, final=True)
        if not hasattr(pynvml, FINDER):
            return Look(problem=words.SHADOWED, final=True)
        return None

    def _refused(self, code: int) -> Look:
        if code == words.DRIVER_NOT_LOADED and not self._gpus:
            return Look(problem=words.NOT_LOADED_NO_DEVICES, harmless=True)
        return Look(problem=words.start_words(code))


class Helper:
    """Answers requests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._driver = Driver(settings)
        self._runner = TaskRunner(self._driver.functions)
        self._events = Events(self._driver.functions)
        self._start = Task(self._driver.start, settings.start_deadline_s)
        self._ask = Ask()
        self._tasks: tuple[tuple[Device, Task], ...] | None = None

    def looks(self, ask: Ask) -> Iterator[Look]:
        """The answers: one, and before it one for each call that does not return."""
        self._ask = ask
        for _ in self._ask_driver():
            yield msgspec.structs.replace(self._look(), done=False)
        yield self._look()

    def _ask_driver(self) -> Iterator[Task]:
        if self._driver.devices is None and self._start.stuck is None and self._driver.may_start():
            yield from self._runner.run((self._start,))
        if self._driver.devices is None:
            return
        if self._tasks is None:
            self._tasks = tuple(
                (device, Task(partial(self._read, device), self._settings.deadline_s))
                for device in self._driver.devices
            )
            yield from self._read_devices()
            self._events.listen([device.handle for device in self._driver.devices if device.handle])
        else:
            yield from self._read_devices()

    def _read_devices(self) -> Iterator[Task]:
        return self._runner.run([task for _, task in self._tasks or ()])

    def _read(self, device: Device, call: Caller) -> None:
        device.read(call, self._ask, self._events.of)

    def _look(self) -> Look:
        if self._start.stuck:
            return Look(problem=words.blocked_words(self._start.stuck.name))
        if self._tasks is None:
            return self._driver.trouble or Look()
        gpus: list[Gpu] = []
        parts: list[MigInstance] = []
        users: list[GpuProcess] = []
        for device, task in self._tasks:
            gpu, own = device.gpu, device.users
            if stuck := task.stuck:
                gpu, own = device.stuck(words.blocked_words(stuck.name), stuck.since)
            if gpu is not None:
                gpus.append(gpu)
                parts += device.parts
                users += own
        return Look(
            driver=self._driver.version, gpus=tuple(gpus), mig_instances=tuple(parts), processes=tuple(users)
        )  # fmt: skip


def main(arguments: list[str]) -> None:
    """Answer each line of JSON with a line of JSON, until the input ends."""
    end_with(int(arguments[1]), b"mpmon-nvml")
    answers = _private_output()
    helper = Helper(msgspec.json.decode(arguments[0], type=Settings))
    for line in sys.stdin.buffer:
        started = time.monotonic()
        for look in _survived(helper, msgspec.json.decode(line, type=Ask)):
            seconds = round(time.monotonic() - started, 4)
            answers.write(msgspec.json.encode(msgspec.structs.replace(look, seconds=seconds)) + b"\n")
            answers.flush()
    # Skip the interpreter's shutdown: a thread may be in the driver, which tends to crash then.
    os._exit(0)


def _survived(helper: Helper, ask: Ask) -> Iterator[Look]:
    """A defect of the helper itself is reported like any other problem."""
    try:
        yield from helper.looks(ask)
    except Exception as defect:
        yield Look(problem=f"mpmon's helper for NVIDIA's driver has a defect: {defect!r:.200}", final=True)


def _private_output() -> BinaryIO:
    """Standard output for answers alone: anything that the driver's library prints is discarded."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return answers


if __name__ == "__main__":
    main(sys.argv[1:])
