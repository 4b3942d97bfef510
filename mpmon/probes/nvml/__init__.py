"""GPUs, as NVIDIA's management library (NVML) reports them, queried in a separate process.

A driver call may never return, and may crash the calling process, so the main loop makes none. A helper process does: it is
started when GPUs are first needed, answers one line of JSON per round, and ends with mpmon, however that ends. In it one
thread walks the devices; a call that does not return makes it abandon that thread and that device, and another thread
continues with the other devices.

Modules of the loop: `client` is the probe, `child` the helper as seen from outside, `pids` tells whose pids the driver names.
Modules of the helper: `helper` answers, `tasks` leaves stuck calls behind, `device` makes the rows, of `fields`, `processes`
and `instances`; `events` waits for Xids, `calls` makes the calls, `suspended` looks whether GPUs sleep.
Both know `wire`, what they say to each other, and `words`, return codes as sentences.

Traps of the library that are minded here, by nvml.h (API version 13) and by what monitors have run into:

- Process utilisation: NOT_FOUND is idle, NOT_SUPPORTED is unknown; samples are asked for since the newest one, because
  the driver's buffer keeps old ones; the size it asks for is a capacity; pids that are on no list are garbage.
- Process lists: a pid may be in several lists and instances (one row for each instance, never added up twice); v3 of the
  first drivers 535 has entries of 32 bytes for a struct of 24, which scrambles the pids: v2 is asked then.
- Memory: v2 keeps apart what the driver reserves, v1 does not; all ones, or more than the device has, is unknown.
- Field values may be written one entry past the requested count.
- A GPU that sleeps is woken by initialising the library: not done while all of them sleep.
- The package is `nvidia-ml-py`; the deprecated package `pynvml` has the same module and lacks what is needed.

Confirmed on an H100 with driver 580: the figures, the lists, and that a process that imports CUDA memory is not counted for
it (`mpmon explain confirmed`).  There the calls of a round took 2.5 ms of CPU a device, nearly all of it the samples of
processes; the highest clock took 1.4 ms, the limit of power and MIG 0.2 ms each, PCIe 42 ms.
Not confirmed on a GPU, only on a library that behaves as the sources say: that an event set tells Xids to any user and keeps
nothing awake that is awake anyway; that the recovery action is a number of 32 bits; which of the three ways of naming pids a
driver follows in a container; that the lists of a MIG instance hold all its processes.
A helper whose thread is stuck in the kernel is killed like any other, but is gone only when the kernel lets go of it.
"""
