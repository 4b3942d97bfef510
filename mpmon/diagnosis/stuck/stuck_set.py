"""A closed set prepared for the rules: its root blockers, what they wait in, and the chain from the goal."""

from __future__ import annotations

from functools import cached_property

import msgspec

from mpmon.diagnosis.edges.deaths import exit_words
from mpmon.diagnosis.edges.messages import left_unread
from mpmon.diagnosis.findings import Certainty, Link, Place, Suspect, Waiter
from mpmon.diagnosis.graph import Absent, Closed, Ending, Exited, External, Graph, NoReleaser, Target
from mpmon.diagnosis.humanize import age, amount
from mpmon.diagnosis.missing_data import hides_call
from mpmon.diagnosis.progress.activity import reads_for_ever, was_fed
from mpmon.diagnosis.progress.loop_progress import matches_short_text
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import interrupted
from mpmon.diagnosis.stacks.natives import NativeFact
from mpmon.diagnosis.stacks.waits import SIGNAL_CALLS, Context, Wait, WaitState, context, wait_state
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.suspects import stands_at
from mpmon.model import Blocked, Frame, KernelObject


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says about a stuck set."""

    summary: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    certainty: Certainty = Certainty.LIKELY
    """An upper bound; the engine lowers it when edges are inferred."""
    threads: tuple[Suspect, ...] = ()
    """The threads that the summary describes in one sentence."""
    tells_of: frozenset[ThreadKey] = frozenset()
    """The threads whose wait the summary already describes, under any name."""


class StuckSet:
    """One closed set, with its description in words."""

    def __init__(self, job: JobState, graph: Graph, closed: Closed) -> None:
        self.job = job
        self.graph = graph
        self.closed = closed
        first = closed.root_blockers[0] if closed.root_blockers else None
        self.nobody = first if isinstance(first, NoReleaser) else None
        gone = tuple(root for root in closed.root_blockers if isinstance(root, Exited))
        # If several ended, the one that crashed left something undone; the others may just have finished.
        self.gone = tuple(root for root in gone if crashed(root)) or gone
        self.outside = first if isinstance(first, External) else None

    @property
    def ending(self) -> Ending:
        """What the chain ends in."""
        return self.closed.ending

    @cached_property
    def idle_targets(self) -> tuple[ThreadKey, ...]:
        """What the first root blocker waits for, if that is threads which all wait for work, or for itself."""
        first = self.closed.root_blockers[0] if self.closed.root_blockers else None
        return self.graph.deserters(first) if isinstance(first, tuple) else ()

    @property
    def is_mutual(self) -> bool:
        """The chain does not end: its members wait for each other."""
        return self.ending in (Ending.CYCLE, Ending.OPEN)

    @property
    def is_final(self) -> bool:
        """Nobody can end it, as far as is known; or one who should have has crashed."""
        if self.ending is Ending.NOBODY or (self.root and self.job.silent_mount(self.root)):
            return True
        if self.ending is Ending.GONE:
            return self.closed.exact or any(map(crashed, self.gone))
        return self.closed.exact and self.ending is Ending.CYCLE

    @property
    def among(self) -> tuple[ThreadKey, ...]:
        """Those that wait for each other: the cycle, else the core of the set."""
        return self.at_end if self.ending is Ending.CYCLE else self.closed.core

    @cached_property
    def at_end(self) -> tuple[ThreadKey, ...]:
        """The threads at the end of the chain: the root blockers, or a thread with a line to look at that stands for one; if none
        of these is a thread (exited, nobody, external), the threads that wait for them directly.
        """
        threads = tuple(root for root in self.closed.root_blockers if isinstance(root, tuple))
        if threads:
            # A manager's thread waits for its client.
            own = [key for key in threads if self.job.wait_state(key).kind is not Wait.OTHER_CLIENTS]
            return tuple(dict.fromkeys(map(self._answerable, own or threads)))
        return tuple(
            key
            for key in self.closed.members
            if (edge := self.graph.node(key).edge) and any(root in edge.targets for root in self.closed.root_blockers)
        )

    def _answerable(self, key: ThreadKey) -> ThreadKey:
        """For a program that is not Python: the Python thread that started it and waits for it, since that one has a source
        line to show. For a library's thread that carries messages: the one in the user's code that waits for it.
        """
        if self.job.shape(key).serves and (caller := self._carried_for(key)):
            return caller
        waits = self.closed.path[self.closed.path.index(key) - 1] if key in self.closed.path[1:] else key
        joins = (other for other in self.closed.members if other[0] == waits[0] and self.targets(other) == (key,))
        waits = next(joins, waits)
        started = self.job.processes[key[0]].ppid == waits[0] if key[0] in self.job.processes else False
        foreign = key not in self.job.stacks and self.job.role(key[0]).kind == "subprocess"
        # A stopped program, or one blocked by a file system, must be released itself; an unreadable one may be Python
        # after all.
        foreign = (
            foreign and self.wait_state(key).kind not in (Wait.STOPPED, Wait.FILE) and not hides_call(self.job, key)
        )
        return waits if foreign and started and waits in self.job.stacks else key

    def _carried_for(self, key: ThreadKey) -> ThreadKey | None:
        """The thread of the same process that called a library from the user's code and waits for this one alone."""
        waiting = (other for other in self.closed.core if other[0] == key[0] and self.targets(other) == (key,))
        return next((other for other in waiting if self.job.shape(other).asks), None)

    @property
    def root(self) -> ThreadKey | None:
        """The first thread at the end, called *the root* below."""
        return self.at_end[0] if self.at_end else None

    @property
    def goal(self) -> ThreadKey:
        """The thread whose progress counts."""
        return self.closed.goal

    def wait_state(self, key: ThreadKey | None = None) -> WaitState:
        """The wait state of the root, or of another thread."""
        return self.job.wait_state(key or self.root or self.goal)

    @cached_property
    def _waits(self) -> frozenset[Wait]:
        """The kinds of wait of all members."""
        return frozenset(self.job.wait_state(key).kind for key in self.closed.members)

    def members_in(self, *kinds: Wait) -> list[ThreadKey]:
        """The members whose wait is of one of these kinds, in the order of the chain."""
        if self._waits.isdisjoint(kinds):
            return []
        return [key for key in self.closed.members if self.job.wait_state(key).kind in kinds]

    @cached_property
    def in_handler(self) -> tuple[ThreadKey, Frame] | None:
        """The main thread of a trainer or the main program (only main threads run signal handlers) that, inside a
        handler, waits for threads that wait for it; and the wait that the signal interrupted.
        """
        if not self.is_mutual:
            return None
        among = self.at_end if self.ending is Ending.CYCLE else self.closed.members
        mains = (key for key in among if key[0] == key[1] and self.job.role(key[0]).kind in ("main", "rank"))
        stacks = ((key, stack) for key in mains if (stack := self.job.stacks.get(key)))
        return next(((key, wait) for key, stack in stacks if (wait := interrupted(stack))), None)

    def could_be_served(self, key: ThreadKey, by: ThreadKey) -> bool:
        """A target other than `by` could end the thread's wait: an external party, or another leaf among the root blockers."""
        edge = self.graph.node(key).edge
        leaves = set(self.closed.root_blockers) - {by} if self.ending is Ending.LEAF else set[Target]()
        return edge is not None and any(isinstance(target, External) or target in leaves for target in edge.targets)

    def motion(self, key: ThreadKey | None = None) -> Motion:
        """The motion of the root, or of another thread."""
        return self.job.motion(key or self.root or self.goal)

    def blocked(self) -> Blocked | None:
        """What the kernel says of the root."""
        return self.job.blocked.get(self.root or self.goal)

    def native_fact(self) -> NativeFact | None:
        """The meaning of the root's C and C++ frames."""
        return self.job.native_facts.get(self.root or self.goal)

    def context(self) -> Context | None:
        """The library call in which the root's user code runs, and which waits for it."""
        found = context(self.job.stacks.get(self.root or self.goal))
        return found[0] if found else None

    def role(self) -> str:
        """The root's role, and its thread when that is not the main one: `thread writer of rank 1`."""
        return self.named(self.root or self.goal)

    def named(self, key: ThreadKey) -> str:
        """A member's role, and its thread when that is not the main one."""
        name = self.job.name(key[0])
        return name if key[0] == key[1] else f"{self.job.thread_words(key)} of {name}"

    def kind(self) -> str:
        """The root's role without its number."""
        return self.job.role((self.root or self.goal)[0]).kind

    def place(self) -> Place | None:
        """The root's line."""
        return stands_at(self.job, self.root or self.goal)

    @cached_property
    def is_frozen(self) -> bool:
        """No root blocker was scheduled lately, unless to renew its wait for work that does not come."""
        return all(self.job.motion(key) is Motion.NOT_SCHEDULED or _gets_no_work(self.job, key) for key in self.at_end)

    @cached_property
    def stood_s(self) -> float:
        """For how long all root blockers have stood still, seconds."""
        return min(map(self._stood_s, self.at_end), default=0.0)

    def _stood_s(self, key: ThreadKey) -> float:
        edge = self.graph.node(key).edge
        if edge and edge.idle_s is not None:
            return edge.idle_s
        moves = self.job.motion(key) is Motion.PROGRESSING and not self.job.wait_state(key).idle
        return 0.0 if moves else self.job.now - stands_since(self.job, key)

    @property
    def is_goal(self) -> bool:
        """The goal is itself the root blocker."""
        return self.root == self.goal

    def since(self) -> float:
        """Since when the first root has stood still, seconds since the epoch."""
        return stands_since(self.job, self.root or self.goal)

    def for_how_long(self) -> str:
        """In words: `4 min 12 s`."""
        return age(self.job.now - self.since())

    def doing(self) -> str:
        """What the root does, in words: `asleep in download() at job.py:23`."""
        return doing(self.job, self.root or self.goal)

    def has_been(self) -> str:
        """The same with its age: `asleep for 10 s in download() at job.py:23`."""
        return doing(self.job, self.root or self.goal, self.for_how_long())

    @property
    def backtracks(self) -> bool:
        """The root is in a match of a regular expression that does not end."""
        return self.root is not None and matches_short_text(self.job.stacks.get(self.root))

    @property
    def reads_past_end(self) -> bool:
        """The root reads its input again and again, although it is at the end of it."""
        return self.root is not None and self.motion() is Motion.BUSY_LOOP and reads_for_ever(self.job, self.root[0])

    @cached_property
    def unread(self) -> KernelObject | None:
        """What the root could read, but is not woken for: edge-triggered epoll has told it once."""
        return left_unread(self.job, self.root) if self.root else None

    def in_detail(self) -> str:
        """What is odd about what the root does, to be added to `has_been`; mostly empty."""
        if self.reads_past_end:
            return ", reading a pipe that nobody can write to any more: every read returns nothing"
        if self.unread:
            return f", although {self.unread.fill} bytes are there: edge-triggered epoll reports them only once"
        return ""

    def burning(self) -> str:
        """The sentence for a root in a busy loop: what every sample found."""
        if self.reads_past_end and self.root:
            return (
                f"{self.role()} reads again and again and gets nothing (syscr of /proc/{self.root[0]}/io grows, rchar does "
                "not), and it has a pipe that nobody can write to any more: it is at the end of its input"
            )
        if self.backtracks:
            return f"{self.role()} was in the same regular-expression match in every sample, and the text is short"
        if self.context():
            return f"{self.role()} is in a busy loop in one call: no value that its loops carry to the next iteration is new"
        return (
            f"{self.role()} is in a busy loop in one call: no loop variable or counter in it changes, and it has read and "
            "written nothing meanwhile"
        )

    def who_waits(self) -> str:
        """The goal's part of the sentence: `main waits for its batch`."""
        if self.is_goal:
            return ""
        edge = self.graph.node(self.goal).edge
        return f"{self.job.role(self.goal[0]).name} waits for {edge.words if edge else 'it'}"

    def at(self, key: ThreadKey | None = None) -> str:
        """The line of the root, or of another thread, to insert in a sentence: ` at job.py:12 in load`; may be empty."""
        place = stands_at(self.job, key or self.root or self.goal)
        return f" at {place}" if place else ""

    def caller(self, key: ThreadKey) -> ThreadKey | None:
        """For a native thread: the Python thread of its process that waits for it, which has a line to look at."""
        path = self.closed.path
        if key in self.job.stacks or key not in path:
            return None
        above = (other for other in reversed(path[: path.index(key)]) if other in self.job.stacks)
        return next((other for other in above if other[0] == key[0]), None)

    def targets(self, key: ThreadKey) -> tuple[Target, ...]:
        """The targets of a thread's wait."""
        edge = self.graph.node(key).edge
        return edge.targets if edge else ()

    def waits_for(self, key: ThreadKey) -> str:
        """What a thread waits for, in words: `a lock held by thread writer`."""
        edge = self.graph.node(key).edge
        return edge.words if edge and edge.words else self.wait_state(key).words

    def waiters(self) -> tuple[Waiter, ...]:
        """Every process that waits for another, in the order of the chain; suspects among them are removed later."""
        found: dict[int, Waiter] = {}
        for key in self.closed.members:
            node = self.graph.node(key)
            if node.edge and key[0] not in found:
                found[key[0]] = Waiter(pid=key[0], role=self.job.role(key[0]).name, waits_for=node.edge.words)
        return tuple(found.values())

    def chain(self) -> tuple[Link, ...]:
        """From the goal to the first root, and around the cycle where it ends in one."""
        around = self.at_end if self.ending is Ending.CYCLE else ()
        links = [self._link(key) for key in dict.fromkeys((*self.closed.path, *around))]
        if self.gone:
            links.append(Link(pid=self.gone[0].pid, role=self.job.role(self.gone[0].pid).name, does=self.gone[0].how))
        if self.nobody and (heir := self._heir()):
            links.append(heir)
        elif self.nobody:
            links.append(Link(pid=0, role="nobody", does=self.nobody.why))
        if self.outside:
            links.append(Link(pid=0, role="outside", does=self.outside.who))
        return tuple(links)

    def _heir(self) -> Link | None:
        """Who keeps open what it inherited, and would have to close it, though it never will by itself."""
        if self.nobody is None or self.nobody.reason is not Absent.INHERITED or not self.nobody.blame:
            return None
        pid = self.nobody.blame[0]
        does = "keeps open what it inherited"
        return Link(pid=pid, role=self.job.role(pid).name, does=does, place=stands_at(self.job, (pid, pid)))

    def edge_evidence(self) -> tuple[str, ...]:
        """The evidence for the edges of the chain."""
        needs = [self.graph.node(key).edge for key in self.closed.path]
        left = self.unread
        unread = (
            [f"{left.fill} bytes of {left.id} are unread, and edge-triggered epoll (EPOLLET) wakes nobody for them"]
            if left
            else []
        )
        return tuple(dict.fromkeys((*unread, *(edge.evidence for edge in needs if edge and edge.evidence))))

    def _link(self, key: ThreadKey) -> Link:
        wait_state = self.job.wait_state(key)
        motion = self.job.motion(key)
        edge = self.graph.node(key).edge
        words = (
            "busy loop"
            if motion is Motion.BUSY_LOOP
            else edge.words
            if edge and edge.holder_known
            else wait_state.words
        )
        thread = None if key[0] == key[1] else self.job.thread_name(key)
        return Link(
            pid=key[0], role=self.job.role(key[0]).name, does=words, place=stands_at(self.job, key), thread=thread,
            basis=edge.basis.value if edge else None,
        )  # fmt: skip


def crashed(gone: Exited) -> bool:
    """Killed, or ended with an exit status that means an error."""
    return bool(gone.status)


def stands_since(job: JobState, key: ThreadKey) -> float:
    """Since when a thread has stood still, seconds since the epoch; for one that waits for work and renews that wait, since
    when it was seen to get none.
    """
    past = job.thread_history(key)
    if past and past.samples and _gets_no_work(job, key):
        return min(job.stands_since(key), past.samples[0].at)
    return job.stands_since(key)


def _gets_no_work(job: JobState, key: ThreadKey) -> bool:
    """The main thread of a service process only renews its wait for work."""
    return key[0] == key[1] and key in job.blocked and job.wait_state(key).idle and not was_fed(job, key[0])


def doing(job: JobState, key: ThreadKey, since: str = "") -> str:
    """What a thread does, in words: `asleep in download() at job.py:23`; with an age, `asleep for 10 s in …`."""
    wait_state, motion, where = job.wait_state(key), job.motion(key), stands_at(job, key)
    process = job.processes.get(key[0])
    lasting = f" for {since}" if since else ""
    at = lasting + (_at(where) if where else "")
    if process and process.ended:
        return exit_words(process.exit_code)
    if wait_state.kind is Wait.STOPPED:
        return wait_state.words + at
    if motion is Motion.BUSY_LOOP:
        busy, stack = job.gpus.busy_with(key[0]), job.stacks.get(key)
        if stack is not None and stack.matching is not None:
            return f"matching a regular expression against {stack.matching} characters{at}"
        return f"in a busy loop{at}" if busy is None else f"running, its GPU {busy:.0f} % busy{at}"
    if motion in (Motion.PROGRESSING, Motion.UNKNOWN) and _has_moved_on(job, key):
        return f"running{at}"
    blocked = job.blocked.get(key)
    if wait_state.kind is Wait.SLEEP and blocked and blocked.syscall in SIGNAL_CALLS:
        return f"waiting for a signal{at}"
    if wait_state.kind is Wait.SLEEP:
        return ("asleep" if motion is not Motion.POLLING else "polling with short sleeps") + at + until(job, key)
    if wait_state.kind is Wait.RUNNING:
        return f"running{at}"
    if wait_state.kind is Wait.FILE:
        return wait_state.words + at
    if wait_state.kind is Wait.UNKNOWN:
        hidden = key in job.blocked and job.blocked[key].syscall is None
        return "unreadable" if hidden else f"in {wait_state.words}{at}" if key in job.blocked else "not sampled yet"
    return f"waiting for {wait_state.words}{at}"


def _has_moved_on(job: JobState, key: ThreadKey) -> bool:
    """The thread ran after its frames were read, so the wait that the kernel reports now belongs to other frames."""
    stack, blocked = job.stacks.get(key), job.blocked.get(key)
    ran = stack is not None and blocked is not None and (blocked.ran_at or 0.0) > stack.taken_at
    return ran and wait_state(stack, None).kind is not job.wait_state(key).kind


def _at(where: Place) -> str:
    inside = "" if where.function.startswith("<") else f" in {where.function}()"
    return f"{inside} at {where.file.rpartition('/')[2]}:{where.line}"


def until(job: JobState, key: ThreadKey) -> str:
    """The remaining sleep as a suffix: `, 5 min to go`; empty for a sleep without an end, and for polling."""
    blocked = job.blocked.get(key)
    if blocked is None or blocked.wakes_at is None or job.motion(key) is Motion.POLLING:
        return ""
    left = blocked.wakes_at - job.now
    return f", {amount(left)} to go" if left > 1 else ""
