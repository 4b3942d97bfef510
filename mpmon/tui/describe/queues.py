"""One queue in full: what is in it, who puts and who gets, who waits in it and for how long, and who has its locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import names_of
from mpmon.tui.describe.reasons import not_known
from mpmon.tui.line import Line, clip, indented, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpmon.diagnosis.ipc import LockView, QueueView
    from mpmon.tui.scene import Scene

FIELDS = {"depth": "items", "bytes_unread": "unread bytes", "producers": "who puts", "consumers": "who gets"}
"""Words for what may not be known of one queue; what only the shim counts the page says once for all."""


def name_of(view: QueueView) -> str:
    """`loader index queue 2`, `made at job.py:9 in main`, `Queue pipe:18`."""
    return view.name.partition(", made at ")[0] if view.name else f"{view.kind or 'queue'} {view.id}"


def waits_since(scene: Scene, view: QueueView, pid: int, *, to_put: bool) -> float | None:
    """When a process came to wait in `put` or `get`.

    The shim writes down when the call began; else a thread that waits without an end has not run since.  Those who ask
    again every few seconds, as a DataLoader does, cannot be told to have waited longer than since they last asked.
    """
    for row in scene.snapshot.queue_records:
        if (row.object, row.pid) == (view.id, pid) and (row.putting if to_put else row.getting):
            return row.put_at if to_put else row.get_at
    parts = set(_parts(scene, view, to_put=to_put))
    rows = [
        row
        for row in scene.blocked_of(pid).values()
        if parts.intersection(row.waits_on) or (view.id in row.waits_on and row.writes == to_put)
    ]
    return min((row.ran_at for row in rows if row.ran_at is not None and row.timeout_s is None), default=None)


def _parts(scene: Scene, view: QueueView, *, to_put: bool) -> Iterator[str]:
    """What is waited on besides its pipe: the lock of that end, and to put the semaphore that counts the room."""
    lock = view.write_lock if to_put else view.read_lock
    if lock:
        yield lock.id
    yield from (row.room for row in scene.snapshot.queues if to_put and row.object == view.id and row.room)


def in_full(scene: Scene, view: QueueView, width: int) -> list[Line]:
    """The queue by name, then what is known of it, then what is not."""
    made = (view.name or "").partition(", ")[2]
    about = " · ".join(filter(None, (made, view.kind if view.name else "", view.id if view.name else "")))
    lines = [clip(((f"  {name_of(view)}", "bold"), (f" · {about}" if about else "", "dim")), width)]
    lines += indented([f"{_content(view)} · {_flow(scene, view)}"], width)
    if is_unread_by_suspect(scene, view):
        readers = names_of(scene, sorted(scene.suspects.intersection(view.consumers)))
        lines += indented([f"to be read by {readers}, which blocks the others"], width, style="bad")
    lines += indented(_waiting(scene, view, to_put=True), width, style="warn")
    lines += indented(_waiting(scene, view, to_put=False), width)
    for name, lock, waiting in (("get", view.read_lock, view.blocked_get), ("put", view.write_lock, view.blocked_put)):
        if lock and lock.taken and (lock.orphaned or not waiting):
            lines += indented([_lock(scene, name, lock)], width, style="bad" if lock.orphaned else "")
    lines += indented(_counted(scene, view), width, style="warn" if view.lost else "")
    return lines + indented(not_known(view.reasons.items(), FIELDS), width, style="dim")


def _content(view: QueueView) -> str:
    """`3 of 16 items, 18 bytes unread`."""
    bound = f" of {view.capacity}" if view.capacity else ""
    return f"{fmt.number(view.depth)}{bound} items, {fmt.number(view.bytes_unread)} bytes unread"


def _flow(scene: Scene, view: QueueView) -> str:
    """Who puts and who gets; in brackets who could, where nobody was seen to."""
    ends = (("producers", view.producers), ("consumers", view.consumers))
    said = [(field, names_of(scene, pids) if pids else "no known process") for field, pids in ends]
    return " → ".join(f"({who})" if field in view.reasons else who for field, who in said)


def _waiting(scene: Scene, view: QueueView, *, to_put: bool) -> Iterator[str]:
    """Who waits, those for equally long together."""
    alike: dict[str, list[int]] = {}
    for pid in view.blocked_put if to_put else view.blocked_get:
        alike.setdefault(_for(scene, waits_since(scene, view, pid, to_put=to_put)), []).append(pid)
    yield from (
        f"{names_of(scene, pids)}: {'blocked in put' if to_put else 'waiting in get'}{lasts}"
        for lasts, pids in alike.items()
    )


def _for(scene: Scene, since: float | None) -> str:
    return "" if since is None else f" for {fmt.age(scene.since(since))}"


def _lock(scene: Scene, name: str, lock: LockView) -> str:
    if lock.orphaned:
        return f"{name} lock: taken, but no living process holds it: its holder ended without releasing it"
    return f"{name} lock: taken by {names_of(scene, lock.holders) if lock.holders else 'an unknown process'}"


def _counted(scene: Scene, view: QueueView) -> Iterator[str]:
    """What the shim says, where all who put or get have it."""
    if view.puts is None:
        return
    puts = fmt.number(view.puts if has_shim(scene, view.producers) else None)
    gets = fmt.number(view.gets if has_shim(scene, view.consumers) else None)
    sites = (("put last at", view.put_site), ("got last at", view.get_site))
    said = [f"{puts} put, {gets} got, {fmt.number(view.lost)} lost before they could be sent"]
    yield ", ".join([*said, *(f"{what} {site}" for what, site in sites if site)])


def has_shim(scene: Scene, pids: Iterable[int]) -> bool:
    """Whether all of them have it, and there is anybody."""
    known = {row.pid for row in scene.snapshot.shims}
    found = set(pids)
    return bool(found) and found <= known


def part_of(scene: Scene, view: QueueView, pid: int) -> Line | None:
    """What one process does with it, in a line; `None` when it has nothing to do with it."""
    does = [
        word
        for word, pids, field in (
            ("puts into", view.producers, "producers"),
            ("gets from", view.consumers, "consumers"),
        )
        if pid in pids and field not in view.reasons
    ]
    waits = [
        f"{word}{_for(scene, waits_since(scene, view, pid, to_put=to_put))}"
        for word, pids, to_put in (
            ("blocked in put", view.blocked_put, True),
            ("waits in get", view.blocked_get, False),
        )
        if pid in pids
    ]
    if not does and not waits:
        return None
    name = name_of(view)
    a_queue = "a queue " if name.startswith("made at") else ""
    about = "" if view.id in name else f" ({view.id})"
    facts = [f"{fmt.number(view.depth)}{f' of {view.capacity}' if view.capacity else ''} items"]
    style = "warn" if pid in view.blocked_put else ""
    return (
        (f"  {' and '.join(does) or 'has'} {a_queue}", ""),
        (name, "place"),
        (about, "dim"),
        (f" · {' · '.join(facts)}", ""),
        *((f" · {wait}", style) for wait in waits),
    )


def interest(scene: Scene, view: QueueView) -> int:
    """What it sorts by: 0 for trouble, 1 for what a suspect does not read, 2 for the rest."""
    locks = [lock for lock in (view.read_lock, view.write_lock) if lock and lock.orphaned]
    if view.blocked_put or view.lost or locks:
        return 0
    return 1 if is_unread_by_suspect(scene, view) else 2


def is_unread_by_suspect(scene: Scene, view: QueueView) -> bool:
    """There is something in it, and somebody who must move first should read it."""
    return bool(view.depth) and bool(scene.suspects.intersection(view.consumers))


def nothing_found(scene: Scene, width: int) -> list[Line]:
    """Why there may be queues of which nothing is known."""
    reasons: dict[str, list[int]] = {}
    for row in scene.snapshot.unknowns:
        if row.table in ("queues", "queue_records") and not row.gone:
            reasons.setdefault(row.reason, []).append(row.pid)
    said = [f"not read of {names_of(scene, pids)}: {reason}" for reason, pids in reasons.items()]
    if not said and not scene.snapshot.queues:
        return [plain("  none found", "dim")]
    return [line for text in said for line in wrap(text, width, style="dim", first="  ", then="    ")]
