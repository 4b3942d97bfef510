"""What another user sees of a job: `python -m tests.ipc.as_nobody PID` prints the report's part on what is shared, as JSON."""

from __future__ import annotations

import json
import sys

from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Observation
from mpmon.reports import document, sharing
from tests.ipc.looking import looking_at
from tests.live.with_rights import become_nobody

if __name__ == "__main__":
    # What is imported on the way may not be readable any more afterwards.
    with looking_at(int(sys.argv[1])) as looking:
        looking.round()
    become_nobody()
    with looking_at(int(sys.argv[1])) as looking:
        case = looking.round()
    seen = Observation(snapshot=case.snapshot, diagnosis=diagnose(looking.history), watched_s=1.0)
    report = json.loads(document.render(seen))
    reasons = sorted({row.reason for row in case.snapshot.unknowns if row.table in ("shared_uses", "queues")})
    shown = {name: report[name] for name in ("queues", "ipc_exports", "shared_memory")}
    print(json.dumps({**shown, "reasons": reasons, "text": list(sharing.lines(seen))}))
