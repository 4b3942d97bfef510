"""`python -m mpmon` and the console script: run the command line, print a failure once, set the exit status."""

from __future__ import annotations

import _thread
import os
import sys

from mpmon import console
from mpmon.errors import LeavesAtOnce

ENDED_BY_SIGINT, ENDED_BY_SIGPIPE = 128 + 2, 128 + 13
"""What a shell reports for these signals; numbers of signal(7), so that `--version` need not import `signal`."""


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    console.prepare()
    sys.unraisablehook = _again
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except LeavesAtOnce as leaving:
        os._exit(leaving.status)
    except BrokenPipeError:
        # The reader has closed the pipe (| head): not an error.
        console.give_up_output()
        return ENDED_BY_SIGPIPE
    except KeyboardInterrupt:
        # Nobody may read what is left.
        console.give_up_output()
        return ENDED_BY_SIGINT
    except Exception as problem:
        return _failed(problem)
    return status


def _again(swallowed: sys.UnraisableHookArgs) -> None:
    """Ctrl-C that came where Python cannot raise anything, as in a destructor, comes again in a moment: it would be lost."""
    if issubclass(swallowed.exc_type, KeyboardInterrupt):
        import threading

        threading.Thread(target=_interrupt, args=(_thread.get_ident(),), daemon=True).start()
    else:
        sys.__unraisablehook__(swallowed)


def _interrupt(ident: int) -> None:
    """Once this thread has left `_again`, which is such a place too, however long that takes on a busy machine."""
    import time

    while _is_in_hook(ident):
        time.sleep(0.01)
    _thread.interrupt_main()


def _is_in_hook(ident: int) -> bool:
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage]
    while frame and frame.f_code is not _again.__code__:
        frame = frame.f_back
    return frame is not None


def _run(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        from mpmon import __version__

        print(f"mpmon {__version__}")
        return 0
    from mpmon.cli import run

    try:
        return run(arguments)
    except SystemExit as left:  # argparse, which has said why
        return left.code if isinstance(left.code, int) else 1


def _failed(problem: Exception) -> int:
    """Say so; the exit status."""
    from mpmon.errors import MpmonError, in_words, refusal, tell

    if isinstance(problem, console.CannotWrite):
        console.give_up_output()
    known = problem if isinstance(problem, MpmonError) else refusal(problem)
    # A defect of mpmon itself: the traceback is printed only on request.
    if known is None and os.environ.get("MPMON_DEBUG"):
        raise problem
    remedy = "" if known else " Set MPMON_DEBUG=1 to see where."
    tell(f"{in_words(problem)}{remedy}")
    return known.exit_status if known else 1


if __name__ == "__main__":
    sys.exit(main())
