"""What a loop does in a turn in which its wait, with a time limit, has brought nothing.

`try: done = results.get(timeout=1)`, `except Empty: look_for_tasks()` goes on by itself, whatever it waits for; with `pass`
instead it only polls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from mpmon.probes.sources import FUNCTION, LOOP, spans


def in_vain(body: Sequence[ast.stmt], line: int, asks: Callable[[ast.expr], bool]) -> list[ast.AST]:
    """The parts of a loop's body that are run in such a turn: without the wait at the line, and without what is only done once
    something has come. Where the line is in the test of the loop, the body is run in vain.

    Args:
        body: The statements of the loop.
        line: Where it waits.
        asks: Whether a test asks others of the job for something: what is done where it holds, is done once they have acted.
    """
    return _Turn(line, asks).parts(body)


class _Turn:
    def __init__(self, line: int, asks: Callable[[ast.expr], bool]) -> None:
        self._line, self._asks = line, asks
        self._brought: set[str] = set()
        """Variables that hold what the wait has brought."""
        self._over = False

    def parts(self, body: Sequence[ast.stmt]) -> list[ast.AST]:
        found: list[ast.AST] = []
        for node in body:
            found += self._run(node)
            if self._over:
                break
        return found

    def _run(self, node: ast.stmt) -> Iterable[ast.AST]:
        here = spans(node, self._line)
        if isinstance(node, ast.If):
            return self._branch(node)
        if isinstance(node, ast.Try):
            return self._tried(node)
        if isinstance(node, LOOP):
            return self._inner_loop(node)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return [*(row.context_expr for row in node.items if not here), *self.parts(node.body)]
        if here:
            self._brought.update(row.id for row in ast.walk(node) if isinstance(row, ast.Name) and _is_bound(row))
            return ()
        self._over = isinstance(node, (ast.Continue, ast.Break, ast.Return, ast.Raise))
        return () if isinstance(node, (ast.Raise, *FUNCTION)) else (node,)

    def _branch(self, node: ast.If) -> list[ast.AST]:
        """Of a test of what the wait has brought, or of what others of the job have done, the branch for nothing."""
        full = self._is_full(node.test)
        if full is None and self._asks(node.test):
            full = True
        if full is not None:
            return self.parts(node.orelse if full else node.body)
        if spans(node, self._line):
            return self.parts(node.body if any(spans(row, self._line) for row in node.body) else node.orelse)
        return [node.test, *self._maybe(node.body), *self._maybe(node.orelse)]

    def _is_full(self, test: ast.expr) -> bool | None:
        """Whether a test holds if the wait has brought something, or if it has not; `None` if it tests something else."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            full = self._is_full(test.operand)
            return None if full is None else not full
        if isinstance(test, ast.BoolOp):
            parts = [full for row in test.values if (full := self._is_full(row)) is not None]
            # `brought and valid` does not hold without what was brought; `nothing or late` holds.
            decides = isinstance(test.op, ast.And)
            return decides if decides in parts else None
        if isinstance(test, ast.Compare):
            nothing = isinstance(test.ops[0], (ast.Is, ast.Eq)) and isinstance(test.comparators[0], ast.Constant)
            return not nothing if self._is_brought(test.left) else None
        return True if self._is_brought(test) else None

    def _is_brought(self, node: ast.expr) -> bool:
        names = {row.id for row in ast.walk(node) if isinstance(row, ast.Name)}
        return spans(node, self._line) or not names.isdisjoint(self._brought)

    def _tried(self, node: ast.Try) -> list[ast.AST]:
        """A wait in vain raises an exception, if there is somebody to handle it."""
        if not any(spans(row, self._line) for row in node.body):
            handled = [row for handler in node.handlers for row in self._maybe(handler.body)]
            return [*self.parts(node.body), *handled, *self._maybe([*node.orelse, *node.finalbody])]
        rows = [row for handler in node.handlers for row in handler.body] or [*node.body, *node.orelse]
        found = self.parts(rows)
        return [*found, *self._maybe(node.finalbody)]

    def _inner_loop(self, node: ast.For | ast.AsyncFor | ast.While) -> list[ast.AST]:
        head = node.test if isinstance(node, ast.While) else node.iter
        # Of nothing, there is no turn.
        return [] if self._is_brought(head) else [head, *self._maybe(node.body)]

    def _maybe(self, body: Sequence[ast.stmt]) -> list[ast.AST]:
        """What is perhaps run, so that the turn goes on after it."""
        over = self._over
        found = self.parts(body)
        self._over = over
        return found


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
