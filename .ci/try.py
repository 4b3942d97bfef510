"""Whether an installed mpmon works: its demo finds the cause, its screen comes up and leaves, its manual is there, and so are
the screen for browsers and the metrics.

Takes the program; says what was tried, and ends with a status other than 0 when it failed.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

HUNG = 3
PATIENCE_S = 90.0
FOOT = b"quit"
"""The first picture, which is drawn without Textual, has no keys at its foot."""


def report(program: str) -> None:
    """The demo as a report."""
    answer = subprocess.run([program, "demo", "loader", "--once"], capture_output=True, text=True, cwd="/", check=False)
    found = re.search(r"cause: .*", answer.stdout)
    print(f"demo loader --once: status {answer.returncode}, {found[0] if found else 'no cause'}")
    if answer.returncode != HUNG or not found:
        sys.exit(answer.stdout + answer.stderr)


def manual(program: str) -> None:
    """A page of the manual, which is a file of the wheel that is no Python."""
    answer = subprocess.run([program, "explain", "rights"], capture_output=True, text=True, cwd="/", check=False)
    print(f"explain rights: status {answer.returncode}, {len(answer.stdout.splitlines())} lines")
    if answer.returncode or "ptrace_scope" not in answer.stdout:
        sys.exit(answer.stdout + answer.stderr)


def screen(program: str) -> None:
    """The demo on a terminal, left as soon as it is shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, [program, "demo", "loader"], {**os.environ, "TERM": "xterm-256color"})  # noqa: S606
    shown = drawn(terminal, FOOT)
    if FOOT in shown:
        os.write(terminal, b"q")
        shown += drawn(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(f"demo loader on a terminal: status {status}")
    if status != 0 or FOOT not in shown:
        sys.exit(shown[-2000:].decode(errors="replace"))


def browser(program: str) -> None:
    """The page of `serve` with the script that draws the screen, and the end of it all."""
    with subprocess.Popen([program, "serve", str(os.getpid())], stdout=subprocess.PIPE, text=True, cwd="/") as serving:
        address = serving.stdout.readline().strip() if serving.stdout else ""
        try:
            page = fetched(address) if address else ""
            script = re.search(r'<script src="(.*?)"', page)
            drawing = fetched(address + script[1]) if script else ""
        finally:
            serving.send_signal(signal.SIGINT)
        status = serving.wait(PATIENCE_S)
    print(f"serve: status {status}, a page of {len(page)} and a script of {len(drawing)} characters")
    if "textual-terminal" not in page or not drawing:
        sys.exit(page)


def export(program: str) -> None:
    """Metrics of this process at a port, and a file of the wheel that is printed."""
    alerts = subprocess.run(
        [program, "export", "--print", "alerts"], capture_output=True, text=True, cwd="/", check=False
    )
    command = [program, "export", str(os.getpid()), "--listen", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd="/") as exporting:
        line = next((line for line in exporting.stderr or () if "http://" in line), "")
        page, deadline = "", time.monotonic() + PATIENCE_S
        try:
            while line and "mpmon_verdict" not in page and time.monotonic() < deadline:
                page = fetched(line.split()[-1])
                time.sleep(0.1)
        finally:
            exporting.send_signal(signal.SIGTERM)
        status = exporting.wait(PATIENCE_S)
    print(f"export: status {status}, metrics of {len(page)} characters, alerts of {len(alerts.stdout)}")
    if status or "mpmon_verdict" not in page or "mpmon_hang_seconds" not in alerts.stdout:
        sys.exit(page + alerts.stderr)


def fetched(address: str) -> str:
    """What a browser gets; no proxy is asked for this machine."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def drawn(terminal: int, until: bytes | None = None) -> bytes:
    """What is drawn until these words are, or until the program has ended."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    while until is None or until not in shown:
        if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            sys.exit(f"after {PATIENCE_S:.0f} s there is only: {shown[-2000:]!r}")
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # EIO: nobody has the terminal open any more
            read = b""
        if not read:
            break
        shown += read
    return shown


manual(sys.argv[1])
report(sys.argv[1])
screen(sys.argv[1])
browser(sys.argv[1])
export(sys.argv[1])
