"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import mpmon
from tests.benchmarks import tools

PACKAGES = ("nvitop", "gpustat", "psutil", "py-spy", "textual", "nvidia-ml-py")


def facts() -> str:
    """One line on the machine, one on the versions."""
    versions = [f"mpmon {mpmon.__version__}", *(f"{name} {_package(name)}" for name in PACKAGES)]
    versions += [f"{name} {_version(name, flag)}" for name, flag in (("htop", "--version"), ("top", "-V"))]
    load = " ".join(f"{figure:.1f}" for figure in os.getloadavg())
    system = f"{os.cpu_count()} CPUs ({_cpu()}), Linux {platform.release()}, Python {platform.python_version()}"
    return f"{system}, load {load}  \n{', '.join(versions)}"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _version(name: str, flag: str) -> str:
    found = tools.program(name)
    if not found:
        return "not installed"
    said = subprocess.run([*found, flag], capture_output=True, text=True, check=False).stdout.split()
    return next((word for word in said if word[0].isdigit()), "of unknown version")
