"""A hang in a library that nobody has heard of: `python -m tests.diagnosis.made_up_library` prints what is said of it.

Rank 0 waits for a tray from its two bakers; one of them has nothing to do, the other one waits for its server.
"""

from __future__ import annotations

from tests.builders import PACKAGES, ROOT, START, blocked, diagnosed, process, snapshot, stack, thread

IDLE, BUSY = 4121, 4122
BAKER = f"{PACKAGES}/trayrun/oven.py:40 Oven.bake_forever"


def main() -> None:
    rows = (
        process(cmdline=("trayrun", "job.py")), process(4110, parent=ROOT), process(IDLE, parent=4110, name="baker"),
        process(BUSY, parent=4110, name="baker"), thread(4110, 4111, name="tray-ring"),
        stack("main", f"{PACKAGES}/trayrun/launch.py:9 watch", f"{PACKAGES}/trayrun/launch.py:3 main"),
        stack("main", f"{PACKAGES}/trayrun/client.py:7 Client.collect", "job.py:12 main", pid=4110),
        stack("main", f"{PACKAGES}/trayrun/oven.py:22 Oven.next_order", BAKER, pid=IDLE),
        stack("main", "job.py:31 knead", BAKER, pid=BUSY),
        *(blocked("futex", pid=pid, ran_at=START - 50) for pid in (ROOT, 4110, IDLE)),
        blocked("recvfrom", pid=BUSY, waits_on=("socket:77",), ran_at=START - 50),
    )  # fmt: skip
    diagnosis = diagnosed([snapshot(*rows, at=float(second)) for second in range(14)])
    for view in diagnosis.processes:
        print(view.pid, view.role)
    for finding in diagnosis.findings:
        print(finding.cause)
        print(finding.summary)
        print(" -> ".join(f"{link.role}: {link.does}" for link in finding.chain))


if __name__ == "__main__":
    main()
