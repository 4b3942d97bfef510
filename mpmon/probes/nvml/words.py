"""Return codes of the driver (`nvmlReturn_t` of nvml.h) as readable text, with the remedy where there is one."""

from __future__ import annotations

SUCCESS, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 4, 6, 7
DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 9, 10, 12, 13
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, UNKNOWN = 15, 16, 18, 999

CODES: dict[int, str] = {
    1: "the library was not initialised",
    2: "the driver does not know this query",
    NOT_SUPPORTED: "not supported by this GPU",
    NO_PERMISSION: "no permission",
    NOT_FOUND: "not found",
    INSUFFICIENT_SIZE: "the answer keeps growing",
    8: "the GPU's power cables are not attached",
    DRIVER_NOT_LOADED: "the driver is not loaded",
    TIMEOUT: "the driver timed out",
    11: "the kernel has a problem with the GPU's interrupts",
    LIBRARY_NOT_FOUND: "one of the driver's own libraries is missing",
    FUNCTION_NOT_FOUND: "this driver has no such call",
    14: "the GPU's infoROM is corrupted",
    GPU_IS_LOST: "the GPU is lost",
    RESET_REQUIRED: "the GPU requires a reset",
    17: "the operating system or its control groups deny it",
    VERSION_MISMATCH: "library and driver are of different versions",
    19: "the GPU is in use",
    20: "not enough memory",
    21: "the driver has no data",
    25: "this driver requires another version of the query",
    27: "the driver is not ready",
    28: "no such GPU",
    29: "the GPU is in a state that does not allow it",
    UNKNOWN: "an error the driver does not explain",
}

NO_LIBRARY = "no NVIDIA driver here: libnvidia-ml.so.1 was not found"
"""The normal case on a machine without GPUs."""

NO_LIBRARY_BUT_DEVICES = (
    "libnvidia-ml.so.1 was not found although there is /dev/nvidiactl: install the driver's utilities; a container needs "
    "NVIDIA_DRIVER_CAPABILITIES=utility,compute"
)
NOT_LOADED_NO_DEVICES = "no NVIDIA GPU here: the driver is installed but not loaded"
SLEEP = "every NVIDIA GPU here is suspended, and mpmon wakes none"
SHADOWED = (
    "the deprecated package pynvml shadows nvidia-ml-py: "
    "pip uninstall -y pynvml && pip install --force-reinstall nvidia-ml-py"
)
NOT_INSTALLED = "nvidia-ml-py is not installed beside mpmon: pip install nvidia-ml-py"

STARTS: dict[int, str] = {
    NO_PERMISSION: "the NVIDIA driver refuses this user: it needs to read and write /dev/nvidiactl and /dev/nvidia0 (ask "
    "for their group); a container has to be started with its GPUs, as docker run --gpus all",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: modprobe nvidia as root; a container has to be started with its "
    "GPUs, as docker run --gpus all",
    LIBRARY_NOT_FOUND: NO_LIBRARY,
    GPU_IS_LOST: "a GPU is lost, and the driver does not start without it: see dmesg for NVRM and Xid, then reboot",
    RESET_REQUIRED: "a GPU requires a reset, and the driver does not start without it: nvidia-smi --gpu-reset, or reboot",
    VERSION_MISMATCH: "the NVIDIA driver was updated and its old kernel module still runs: reboot, or unload and load the "
    "nvidia modules",
}
"""Why the library could not be initialised."""

GARBLED = "the driver's list of processes makes no sense: pids or sizes cannot be right"
"""The driver and mpmon disagree on the size of an entry."""

DEVICES: dict[int, str] = {
    GPU_IS_LOST: "the GPU is lost: it does not answer on its bus any more; see dmesg for NVRM and Xid, then reset it or "
    "reboot",
    RESET_REQUIRED: "the GPU requires a reset: end all processes on it, monitors too, then nvidia-smi --gpu-reset, or reboot",
}
"""What makes a device as a whole unreadable."""


def field_words(code: int) -> str:
    """Why one value is missing."""
    return CODES.get(code, f"error {code} of the driver")


def start_words(code: int) -> str:
    """Why the library could not be initialised, with the remedy."""
    return STARTS.get(code, f"the NVIDIA driver does not start: {field_words(code)}; see what nvidia-smi and dmesg say")


def blocked_words(call: str) -> str:
    """The problem of a call that has not returned."""
    return f"driver call {call} blocks"
