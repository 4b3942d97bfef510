"""The process behind one window: `mpmon` with the given arguments; it ends with the server, however that ends."""

from __future__ import annotations

import runpy
import sys

from mpmon.start import end_with


def main(parent: int, arguments: list[str]) -> None:
    """As `python -m mpmon` with these arguments."""
    end_with(parent, b"mpmon-screen")
    sys.argv = ["mpmon", *arguments]
    runpy.run_module("mpmon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
