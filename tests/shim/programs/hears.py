"""Says which signals it gets, one number a line, and ends with SIGTERM; `deaf` to none. Its first line says how it began."""

import os
import signal
import sys
from pathlib import Path


def of_signals(status: Path) -> list[str]:
    """What is blocked and what is ignored: proc_pid_status(5)."""
    lines = status.read_text(encoding="utf-8").splitlines()
    return [line.split()[1] for line in lines if line.startswith(("SigBlk:", "SigIgn:"))]


def main() -> None:
    began = of_signals(Path("/proc/self/status"))
    # An ignored one stays so: it would count if it was blocked.
    heard = {number for number in signal.valid_signals() if signal.getsignal(number) is not signal.SIG_IGN}
    heard |= {signal.SIGPIPE, signal.SIGXFSZ}
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    print("up", os.getpid(), *began, flush=True)
    while (number := signal.sigwait(heard)) != signal.SIGTERM:
        print(int(number), flush=True)
    sys.exit(9)


if __name__ == "__main__":
    main()
