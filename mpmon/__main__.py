"""`python -m mpmon` and the console script: run the command line, print a failure once, set the exit status."""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit status."""
    # Imported late, so that a failure below is still told in one sentence.
    from mpmon.cli import run
    from mpmon.errors import MpmonError

    try:
        return run(sys.argv[1:] if arguments is None else arguments)
    except MpmonError as problem:
        print(f"mpmon: {problem} {problem.remedy}".rstrip(), file=sys.stderr)
        return problem.exit_status
    except BrokenPipeError:
        # The reader has gone (| head): nothing to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
