"""The agents of one job, from the start of their carriers to their end, in a thread of its own.

That thread communicates with all agents and never blocks on one: it reads what arrives, keeps agents alive, starts
carriers when due (also lost ones, and those of nodes that were not up yet), and keeps the last report of each node.
Other threads use `ask` and `rounds`.

Data from a node comes from another machine, and the job may have forged it. It is read within bounds
(`mpmon.nodes.wire`), and a node that exceeds them is no longer read. The others continue.
"""

from __future__ import annotations

import threading

from mpmon import __version__
from mpmon.codec import BadRecording
from mpmon.nodes import wire
from mpmon.nodes.members import CONNECT_S, LABEL, Node, NodeState, Running, State
from mpmon.nodes.pipes import COMPLAINTS, END_S, Pipes
from mpmon.nodes.transports import Carrier, Trouble, last_line
from mpmon.spans import has

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mpmon.nodes.pipes import Ready
    from mpmon.nodes.transports import Transport
    from mpmon.probes.nccl_ras import Address
    from mpmon.spans import Spans

ROUND_S = 60.0
"""Time limit for a sample, while its agent beats."""

AGAIN_S = (2.0, 5.0, 10.0, 30.0)
"""Delays between the end of a carrier that once worked and its next start; the last one repeats."""

MOST_AT_ONCE = wire.MOST_PACKED * 2
"""Most bytes from a node between two messages to it: one answer and what accompanies it."""

MOST_MESSAGES = 1000
"""The same in messages: one beat a second, while the front end was stopped for some minutes."""

MOST_EXCHANGES = 100
"""Most time queries whose answers are still useful."""

NEW = Trouble("was added to the job and has not answered yet", awaited=True)


class Fleet:
    """All agents of a job."""

    def __init__(self, transport: Transport, now: Callable[[], float]) -> None:
        """`now` is the monotonic clock of the front end.

        Raises:
            MpmonError: the transport cannot tell which nodes there are.
        """
        self._transport = transport
        self._now = now
        self._running = [Running(carrier, [Node(name) for name in carrier.nodes]) for carrier in transport.carriers()]
        self._nodes = [node for running in self._running for node in running.nodes]
        self._by_key: dict[tuple[str, int], Node] = {}
        self._pipes = Pipes()
        self._lock = threading.RLock()
        """Guards all of this. Enter the lock itself, not the condition: the condition's `__enter__` is Python code, and
        Ctrl-C after it has taken the lock but before the `with` begins would leave the lock taken, and the thread would
        wait for it for ever.
        """
        self._changed = threading.Condition(self._lock)
        """Notified whenever a message arrives."""
        self._messages = 0
        self._watch: wire.Watch | None = None
        self._asked_at: dict[int, float] = {}
        """When each of the last `Alive` was sent."""
        self._alive_at = 0.0
        self._closing = False
        self._defect: Exception | None = None
        """The exception that ended the thread."""
        self._thread = threading.Thread(target=self._pump, name="mpmon nodes", daemon=True)

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing = True
        self._pipes.wake()
        self._thread.join()

    # For the watching thread

    def nodes(self) -> list[NodeState]:
        """All nodes, always in the same order."""
        with self._lock:
            now = self._now()
            return [node.row(now) for node in self._nodes]

    def watch(self, wish: wire.Watch) -> None:
        """Have all agents start watching, including later ones."""
        with self._lock:
            self._watch = wish
            self._tell(self._alive())
            self._tell(wish)

    def ask(self, number: int, facts: Spans | None = None) -> None:
        """Request a round from all agents, with facts from `facts`, given by the places of the nodes, or from all."""
        with self._lock:
            whole = any(node.state is State.HERE and node.wants_whole for node in self._nodes)
            addresses = None
            if facts is not None:
                addresses = tuple(node.address for place, node in enumerate(self._nodes) if has(facts, place))
            self._tell(wire.Ask(number=number, facts=addresses, whole=whole))

    def ask_ras(self, place: int, number: int, address: Address) -> None:
        """Have the agent of one node, by its place, query NCCL's RAS; its state gets the answer."""
        with self._lock:
            agent = self._nodes[place].address
            self._tell(wire.AskRas(number=number, agent=agent, host=address.host, port=address.port))

    def add(self, carriers: Iterable[Carrier]) -> None:
        """Add nodes to the job: nothing waits for them, and they join when they answer."""
        with self._lock:
            for carrier in carriers:
                running = Running(carrier, [Node(name) for name in carrier.nodes])
                for node in running.nodes:
                    node.state, node.problem, node.awaited = State.OUT, NEW, True
                    node.heard_at = self._now()
                self._running.append(running)
                self._nodes += running.nodes

    def look_now(self) -> None:
        """Have all agents sample everything."""
        with self._lock:
            self._tell(wire.LookNow())

    def wait(self, enough: Callable[[list[NodeState]], bool], seconds: float) -> bool:
        """Wait until enough is known, or until the time has passed; returns whether enough is known."""
        with self._lock:
            until = self._now() + seconds
            while not self._closing and (left := until - self._now()) > 0:
                now = self._now()
                if enough([node.row(now) for node in self._nodes]):
                    return True
                self._changed.wait(min(left, wire.BEAT_S / 2))
            if self._defect:
                raise self._defect
            return False

    def wake(self) -> None:
        """Have waiting threads check again; safe from any thread."""
        with self._lock:
            self._changed.notify_all()

    def expel(self, name: str, problem: Trouble) -> None:
        """Ignore everything from this node."""
        with self._lock:
            for running in self._running:
                for node in running.nodes:
                    if node.name == name:
                        self._out(running, node, problem)

    # The thread

    def _pump(self) -> None:
        try:
            while not self._closing:
                events = self._pipes.wait(wire.BEAT_S / 2)
                with self._lock:
                    self._take(events)
                    self._start_due()
                    self._keep_alive()
                    self._changed.notify_all()
        except Exception as problem:
            self._defect = problem
        finally:
            self._closing = True
            self._end()

    def _take(self, events: Ready) -> None:
        for running, kind, chunk in self._pipes.take(events):
            if kind == COMPLAINTS:
                self._complained(running)
            elif chunk:
                self._hear(running, chunk)
            else:
                self._ended(running)

    # Carriers

    def _start_due(self) -> None:
        now = self._now()
        on_their_way = sum(1 for running in self._running if running.process and not running.spoke)
        for running in self._running:
            if running.process is None:
                if running.due and running.due_at <= now and on_their_way < self._transport.at_once:
                    on_their_way += 1
                    self._start(running, now)
            elif not running.spoke and now - running.started_at > CONNECT_S:
                self._silent(running)

    def _start(self, running: Running, now: float) -> None:
        running.spoke, running.started_at, running.said = False, now, b""
        running.labels, running.unsent = wire.Lines(), bytearray()
        for node in running.nodes:
            if node.state is not State.OUT or node.awaited:
                node.begin()
            if node.state is State.COMING:
                node.heard_at = now
        try:
            self._pipes.start(running)
        except OSError as problem:
            for node in running.nodes:
                node.state = State.OUT
                node.problem = Trouble(f"cannot be reached: {running.carrier.words[0]}: {problem.strerror}")

    def _silent(self, running: Running) -> None:
        """Handle a carrier without a message from its agents in time."""
        for node in running.nodes:
            if node.state is State.COMING:
                node.state = State.LOST
                node.problem = self._complaint(running, node) or Trouble(f"has not answered within {CONNECT_S:.0f} s")
        if running.process and self._now() - running.started_at > CONNECT_S + END_S:
            running.process.kill()
        elif running.process:
            running.process.terminate()

    def _ended(self, running: Running) -> None:
        """Handle the end of a carrier's output, which is also the end of its agents."""
        process, running.process = running.process, None
        if process is None:
            return
        status = self._pipes.close(process)
        for node in running.nodes:
            if node.state not in (State.COMING, State.HERE, State.LOST):
                self._still_out(running, node)
                continue
            problem = self._complaint(running, node) or node.problem or Trouble(f"lost its agent (status {status})")
            comes_back = node.state is not State.COMING and not problem.final
            node.state, node.problem = State.LOST if comes_back else State.OUT, problem
            node.awaited = node.state is State.OUT and problem.awaited
        running.failures = 0 if running.spoke else running.failures + 1
        steps = min(running.failures, len(AGAIN_S) - 1) if running.live else -1
        running.due_at = self._now() + AGAIN_S[steps]

    def _still_out(self, running: Running, node: Node) -> None:
        """Update a node that was retried; a node that now refuses the agent is not retried again."""
        problem = self._transport.trouble(node.name, running.said_of(node))
        if node.awaited and problem:
            node.problem, node.awaited = problem, problem.awaited

    def _complained(self, running: Running) -> None:
        """Handle the end of one of many tasks, which its carrier reports only when all have ended."""
        for node in running.nodes if running.carrier.labelled else ():
            said = running.said_only_of(node)
            if node.state is State.COMING and (problem := self._transport.trouble(node.name, said)):
                node.state, node.problem = State.OUT, problem

    def _complaint(self, running: Running, node: Node) -> Trouble | None:
        """The error output about a node, from its carrier or before its agent's first message."""
        said = "\n".join([*node.unpacker.remarks, running.said_of(node)])
        words = last_line(said)[: wire.LONGEST_REMARK]
        return self._transport.trouble(node.name, said) or (Trouble(f"has no agent: {words}") if words else None)

    # Sending

    def _tell(self, message: wire.Said) -> None:
        self._messages += 1
        frames = b"".join(wire.frames(self._messages, message))
        for running in self._running:
            if running.process and running.spoke:
                self._pipes.send(running, frames)
            for node in running.nodes:
                node.got = node.messages = 0

    def _keep_alive(self) -> None:
        now = self._now()
        if now - self._alive_at >= wire.ALIVE_S:
            self._alive_at = now
            self._tell(self._alive())

    def _alive(self) -> wire.Alive:
        """A time query, sent now."""
        number = max(self._asked_at, default=0) + 1
        self._asked_at[number] = self._now()
        self._asked_at.pop(number - MOST_EXCHANGES, None)
        return wire.Alive(number=number)

    # Messages from agents

    def _hear(self, running: Running, chunk: bytes) -> None:
        if not running.carrier.labelled:
            node = running.nodes[0]
            self._read(running, node, len(chunk), node.lines.feed(chunk))
            return
        for line in running.labels.feed(chunk):
            found = LABEL.match(line)
            node = running.of_label(int(found[1])) if found else None
            if node is None:
                running.says(line + b"\n")
            elif found:
                self._read(running, node, len(line), [line[found.end() :]])

    def _read(self, running: Running, node: Node, size: int, lines: list[bytes]) -> None:
        if node.state is State.OUT and not node.awaited:
            return
        node.got += size
        if node.got > MOST_AT_ONCE:
            self._out(running, node, Trouble(f"sends more than {MOST_AT_ONCE >> 20} MiB at once"))
            return
        try:
            for message in node.unpacker.feed(lines):
                node.messages += 1
                if node.messages > MOST_MESSAGES:
                    self._out(running, node, Trouble(f"sends more than {MOST_MESSAGES} messages at once"))
                    return
                self._said(running, node, message)
        except wire.OtherProtocol as problem:
            self._out(running, node, Trouble(f"speaks {problem}", "Install the mpmon there that runs here."))
        except (wire.Garbage, BadRecording) as problem:
            self._out(running, node, Trouble(f"sends {problem}", "Is the mpmon there the one that runs here?"))

    def _said(self, running: Running, node: Node, message: wire.FromAgent) -> None:
        node.heard_at = self._now()
        if isinstance(message, wire.Hello):
            self._greeted(running, node, message)
        elif isinstance(message, wire.Bye):
            self._left(running, node, message)
        elif node.state is not State.HERE:
            return
        elif isinstance(message, wire.Beat):
            if (asked_at := self._asked_at.get(message.answers)) is not None:
                node.clocks.add(asked_at, message.clock, node.heard_at)
        elif isinstance(message, wire.RasAnswer):
            node.ras = message
        else:
            node.see(message)

    def _greeted(self, running: Running, node: Node, hello: wire.Hello) -> None:
        node.version = hello.version
        if hello.version != __version__:
            self._out(
                running,
                node,
                Trouble(f"has mpmon {hello.version}, not {__version__} as here", "Install the same version there."),
            )
            return
        node.state, node.problem, node.jobs, node.awaited = State.HERE, None, hello.jobs, False
        node.machine, node.address = hello.machine, hello.address
        running.spoke = True
        for key in node.reports_on():
            other = self._by_key.setdefault(key, node)
            if other is not node and other.state is State.HERE:
                self._out(running, node, Trouble(f"is the same machine as {other.name}"))
                return
            self._by_key[key] = node
        for message in (self._alive(), self._watch) if self._watch else ():
            self._messages += 1
            self._pipes.send(running, b"".join(wire.frames(self._messages, message)))

    def _left(self, running: Running, node: Node, bye: wire.Bye) -> None:
        awaited = bye.exit_status == wire.NO_JOB
        self._out(running, node, Trouble(bye.reason.rstrip("."), bye.remedy, awaited=awaited, jobless=awaited))

    def _out(self, running: Running, node: Node, problem: Trouble) -> None:
        """Expect nothing from this node any more; a carrier without other nodes is ended."""
        node.state, node.problem, node.awaited = State.OUT, problem, problem.awaited
        if not running.live and running.process:
            running.process.terminate()

    # The end

    def _end(self) -> None:
        with self._lock:
            self._tell(wire.End())
            left = [running.process for running in self._running if running.process]
            for process in left:
                if process.stdin:
                    process.stdin.close()
            self._changed.notify_all()
        self._pipes.end(left)
