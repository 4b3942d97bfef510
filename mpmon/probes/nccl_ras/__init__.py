"""What NCCL itself knows of its communicators, from its RAS threads: only if the user requested it, and once per hang.

Every process that uses NCCL (2.24 or newer) has a thread for reliability, availability and serviceability; one of a machine
listens on localhost:28028 (NCCL_RAS_ADDR) and answers for all processes of the job, which it asks over a network of their
own. In some versions such a question has crashed the job, so it is never queried automatically, and never polled.

Its counts are of operations that a rank has issued, not of finished ones: a rank that has issued fewer than its peers has
not come to what they wait in; equal counts prove nothing.

Modules: `dialogue` asks within one deadline and so many bytes, `answer` makes rows of what it said.
Words and fields: src/ras/client_support.cc of NCCL and its "RAS" page; JSON is known since 2.28.7.
"""

from __future__ import annotations

from mpmon.probes.nccl_ras.answer import Communicator, NotUnderstood, Peer, communicators
from mpmon.probes.nccl_ras.dialogue import Address, NoAnswer, NotReached, ask

__all__ = ["Address", "Communicator", "NoAnswer", "NotReached", "NotUnderstood", "Peer", "ask", "communicators"]
