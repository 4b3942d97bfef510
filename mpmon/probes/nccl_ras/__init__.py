"""What NCCL itself knows about its communicators, from its RAS threads: only if the user requested it, and once per hang.

Every process that uses NCCL (2.24 or newer) has a thread for reliability, availability and serviceability; one per machine
listens on localhost:28028 (NCCL_RAS_ADDR) and answers for all processes of the job, which it queries over RAS's own
network. In some versions such a query has crashed the job, so it is never made automatically, and never polled.

It counts operations that a rank has issued, not finished ones: a rank that has issued fewer than its peers has not reached
the operation they wait in; equal counts prove nothing.

Modules: `dialogue` asks within a deadline and a byte limit, `answer` turns the answer into rows.
Commands and fields: src/ras/client_support.cc of NCCL and its "RAS" page; JSON is available since 2.28.7.
"""

from __future__ import annotations

from mpmon.probes.nccl_ras.answer import Communicator, NotUnderstood, Peer, communicators
from mpmon.probes.nccl_ras.dialogue import Address, NoAnswer, NotReached, ask

__all__ = ["Address", "Communicator", "NoAnswer", "NotReached", "NotUnderstood", "Peer", "ask", "communicators"]
