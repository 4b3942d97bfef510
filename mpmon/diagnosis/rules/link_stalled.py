"""Data that one rank sends to another does not arrive: the link between their machines loses it.

What it looks like: ranks wait in a collective, or a program for an answer, and the kernel of one machine resends the same
bytes of a TCP connection, each time after a longer wait, while nothing arrives at the other end. In `ss -tio` such a
connection has `backoff` and `timer:(on,…)`. A receiver that is merely slow to read looks different: its kernel acknowledges
what it has room for, and nothing is resent.
Why: a cable or switch port is down, a firewall drops the connection, packets exceed the MTU of the path, or the other machine
is off or cut off.  TCP keeps trying for some 15 minutes (`net.ipv4.tcp_retries2`) before either side gets an error.
What to do: check the path between the two addresses, in the direction given; once it is repaired, the job continues by
itself.  Seen from the sender's machine alone, a machine that is off looks the same.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.hosts import Hosts
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.stuck.links import Stall, hosts_between, stalls
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "link-stalled"
NEEDS = frozenset({"blocked", "handles"})

MOST_CONNECTIONS = 8
"""Most connections listed as evidence."""


def match(stuck: StuckSet) -> Match | None:
    """Bytes that the stuck set waits for are resent repeatedly."""
    found = stalls(stuck)
    if not found:
        return None
    first, more = found[0], len(found) - 1
    others = f"; so {'do' if more > 1 else 'does'} {more} other connection{'s' if more > 1 else ''}" if more else ""
    return Match(
        summary=f"data from {_end(stuck, first.sender, first.addresses[0])} to {_other_end(stuck, first)} is not arriving: "
        f"{_again(stuck, first)}{others}",
        evidence=(*(_connection(stuck, row) for row in found[:MOST_CONNECTIONS]), *stuck.edge_evidence()),
        advice=_advice(found),
        certainty=Certainty.LIKELY,
    )


def _end(stuck: StuckSet, pid: int, address: str) -> str:
    host = Hosts(stuck.job.snapshot).name(pid) or stuck.job.snapshot.host
    return f"{stuck.job.role(pid).name}{f' on {host}' if host else ''} ({address})"


def _other_end(stuck: StuckSet, row: Stall) -> str:
    address = row.addresses[1]
    return address if row.receiver is None else _end(stuck, row.receiver, address)


def _again(stuck: StuckSet, row: Stall) -> str:
    since = row.near.acknowledged_at
    silent = f", with no acknowledgement for {age(stuck.job.now - since)}" if since is not None else ""
    return f"the sender's kernel has resent the same bytes {row.near.resends} times{silent}"


def _connection(stuck: StuckSet, row: Stall) -> str:
    near, far = row.addresses
    came = row.far.received_at if row.far else None
    there = "the other end is not visible to mpmon" if row.far is None else "the other end has nothing unread"
    last = f", and nothing was received for {age(stuck.job.now - came)}" if came is not None else ""
    return (
        f"{near} to {far}: {row.near.unacknowledged_bytes} bytes unacknowledged, resent "
        f"{row.near.resends} times; {there}{last}"
    )


def _advice(found: tuple[Stall, ...]) -> tuple[str, ...]:
    near, far = next(hosts_between(found))
    there = "Look at both machines at once: mpmon explain many-nodes. From here, a machine that is off looks the same."
    return (
        f"Check the path from {near} to {far}: cable, switch port, firewall; on the sender, ping -I {near} {far}.",
        "Where small packets arrive and large ones do not, the MTU is wrong somewhere: ping -M do -s 1472 (or 8972).",
        *((there,) if any(row.far is None for row in found) else ()),
    )
