"""What one rank sends to another does not arrive: the link between their machines loses it.

What it looks like: ranks wait in a collective, or a program for an answer, and the kernel of one machine sends the same bytes of
a TCP connection again and again, each time after a longer wait, while nothing comes at the other end. In `ss -tio` such a
connection has `backoff` and `timer:(on,…)`. A receiver that is only slow to read looks different: its kernel acknowledges
what it has room for, and nothing is sent again.
Why: a cable or switch port is out, a firewall drops the connection, packets are larger than the way allows (MTU), or the
other machine is off or cut off.  TCP goes on for some 15 minutes (`net.ipv4.tcp_retries2`) before anybody gets an error.
What to do: check the way between the two addresses, in the direction that is named; when it is mended, the job goes on by
itself.  Seen from the sender's machine alone, a machine that is off looks the same.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.hosts import Hosts
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.links import Stall, hosts_between, stalls
from mpmon.diagnosis.words import age

CAUSE = "link-stalled"
NEEDS = frozenset({"blocked", "handles"})

MOST_CONNECTIONS = 8
"""That are told as evidence."""


def claim(knot: Knot) -> Claim | None:
    """Bytes that the set waits for are sent again and again."""
    found = stalls(knot)
    if not found:
        return None
    first, more = found[0], len(found) - 1
    others = f"; so it is on {more} other connection{'s' if more > 1 else ''}" if more else ""
    return Claim(
        summary=f"what {_end(knot, first.sender, first.addresses[0])} sends to {_other_end(knot, first)} does not arrive: "
        f"{_again(knot, first)}{others}",
        evidence=(*(_connection(knot, row) for row in found[:MOST_CONNECTIONS]), *knot.edge_evidence()),
        advice=_advice(found),
        certainty=Certainty.LIKELY,
    )


def _end(knot: Knot, pid: int, address: str) -> str:
    host = Hosts(knot.case.snapshot).name(pid) or knot.case.snapshot.host
    return f"{knot.case.role(pid).name}{f' on {host}' if host else ''} ({address})"


def _other_end(knot: Knot, row: Stall) -> str:
    address = row.addresses[1]
    return address if row.receiver is None else _end(knot, row.receiver, address)


def _again(knot: Knot, row: Stall) -> str:
    since = row.near.acknowledged_at
    silent = f", and nothing was acknowledged for {age(knot.case.now - since)}" if since is not None else ""
    return f"its kernel has sent the same bytes again {row.near.resends} times{silent}"


def _connection(knot: Knot, row: Stall) -> str:
    near, far = row.addresses
    came = row.far.received_at if row.far else None
    there = "the other end was not seen" if row.far is None else "at the other end nothing waits to be read"
    last = f", and nothing came for {age(knot.case.now - came)}" if came is not None else ""
    return (
        f"{near} to {far}: {row.near.unacknowledged_bytes} bytes without acknowledgement, sent again "
        f"{row.near.resends} times; {there}{last}"
    )


def _advice(found: tuple[Stall, ...]) -> tuple[str, ...]:
    near, far = next(hosts_between(found))
    there = "Look at both machines at once: mpmon explain many-nodes. One that is off looks the same from here."
    return (
        f"Check the way from {near} to {far}: cable, switch port, firewall; on the sender, ping -I {near} {far}.",
        "Where small packets arrive and large ones do not, the MTU is wrong somewhere: ping -M do -s 1472 (or 8972).",
        *((there,) if any(row.far is None for row in found) else ()),
    )
