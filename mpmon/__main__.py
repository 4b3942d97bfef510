"""`python -m mpmon` and the console script: run the command line, print a failure once, set the exit status."""

from __future__ import annotations

import os
import sys

ENDED_BY_SIGINT, ENDED_BY_SIGPIPE = 128 + 2, 128 + 13
"""What a shell reports for these signals; numbers of signal(7), so that `--version` need not import `signal`."""


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given in (["--version"], ["-V"]):
        from mpmon import __version__

        print(f"mpmon {__version__}")
        return 0
    from mpmon.cli import run
    from mpmon.errors import MpmonError

    try:
        return run(given)
    except MpmonError as problem:
        print(f"mpmon: {_sentences(str(problem), problem.remedy)}", file=sys.stderr)
        return problem.exit_status
    except BrokenPipeError:
        # The reader has gone (| head): nothing to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ENDED_BY_SIGPIPE
    except KeyboardInterrupt:
        return ENDED_BY_SIGINT
    except Exception as defect:
        # A defect of mpmon itself: nobody is helped by a traceback at night, unless it is asked for.
        if os.environ.get("MPMON_DEBUG"):
            raise
        said = f"{type(defect).__name__}: {defect}"
        print(f"mpmon: this is a defect of mpmon ({said}). Set MPMON_DEBUG=1 to see where.", file=sys.stderr)
        return 1


def _sentences(message: str, remedy: str) -> str:
    """Both as sentences, the second with a capital."""
    said = [message, remedy[:1].upper() + remedy[1:]]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in said if part)


if __name__ == "__main__":
    sys.exit(main())
