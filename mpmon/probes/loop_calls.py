"""What the calls in a loop's source are for, by their names: to look, to log, to ask others of the job."""

from __future__ import annotations

import ast

from mpmon.model import CLOCKS
from mpmon.probes.sources import Functions

UNKNOWN = "?"
"""A call of something that has no name, or a test of something unknown, such as a variable."""

ASKS = frozenset({
    "alive", "done", "empty", "full", "get_nowait", "is_alive", "is_set", "locked", "poll", "qsize", "ready", "recv", "result",
})  # fmt: skip
"""Methods that ask other threads or processes of the job."""

QUIET = frozenset({
    "Path", "active_count", "all", "any", "append", "bool", "clear", "copy", "current_thread", "dict", "dumps", "encode",
    "enumerate", "extend", "float", "format", "get_ident", "get_native_id", "getpid", "getppid", "int", "isinstance", "items",
    "join", "keys", "len", "list", "max", "min", "pop", "random", "range", "remove", "round", "set", "sleep", "sorted", "str",
    "strftime", "sum", "tuple", "uniform", "values", "wait", "zip",
})  # fmt: skip
"""Functions and methods that bring nothing in from outside."""

REPORTS = frozenset({
    "add_scalar", "dump", "flush", "fsync", "gauge", "inc", "labels", "makedirs", "mkdir", "observe", "rename", "replace",
    "touch", "truncate", "utime", "write", "write_bytes", "write_text", "writelines", "writerow", "writerows",
})  # fmt: skip
"""Functions and methods that tell that the process lives, or how far it is: in a file, in metrics."""

LOGS = frozenset({"critical", "debug", "error", "exception", "info", "log", "print", "warn", "warning"})
"""Of logging, warnings and builtins."""

LOOKS = (ASKS | QUIET | LOGS | CLOCKS | {
    "SharedMemory", "access", "bind", "close", "compare_set", "connect", "connect_ex", "cpu_percent",
    "create_connection", "decode", "disk_usage", "endswith", "exists", "flock", "fstat", "get", "getloadavg",
    "getmtime", "getrusage", "getsize", "glob", "hasattr", "is_dir", "is_file", "isdir", "isfile", "islink",
    "iterdir", "listdir", "load", "loads", "lockf", "lstat", "max_memory_allocated", "memory_allocated",
    "memory_info", "memory_reserved", "open", "read", "read_bytes", "read_text", "readline", "readlines", "scandir",
    "setsockopt", "settimeout", "socket", "split", "startswith", "stat", "strip", "unpack", "unpack_from", "urlopen",
    "virtual_memory",
}) - {"append", "clear", "extend", "pop", "remove"}  # fmt: skip
"""Functions and methods that look for something and leave it as it is: a file, a port, a status, a lock of others."""


TAKES = frozenset({"get_nowait", "recv", "result"})
"""Methods that may take away what others wait for room for, or take up what they have done."""

CHANGES = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove", "setdefault",
    "sort", "update",
})  # fmt: skip
"""Methods that change a list, dictionary, set or deque."""


def with_callees(part: ast.AST, functions: Functions) -> list[ast.AST]:
    """The nodes of a part, and of the functions and methods whose names are called there, as far as the file has them."""
    nodes, left = list(ast.walk(part)), dict(functions)
    for node in nodes:
        callee = left.pop(call_name(node), None)
        if callee is not None:
            nodes += ast.walk(callee)
    return nodes


def call_name(node: ast.AST) -> str:
    """The name of the function or method that a node calls; empty if it calls none."""
    return getattr(node.func, "attr", getattr(node.func, "id", UNKNOWN)) if isinstance(node, ast.Call) else ""


def call_owner(node: ast.AST) -> str:
    """The object whose method a node calls, as its source says; empty if it calls none."""
    method = node.func if isinstance(node, ast.Call) else None
    return ast.dump(method.value) if isinstance(method, ast.Attribute) else ""


def takes(node: ast.AST) -> bool:
    """Whether it calls one of the methods in `TAKES`."""
    return call_name(node) in TAKES


def is_work(node: ast.AST, functions: Functions) -> bool:
    """It calls something that does more than look, count and log."""
    name = call_name(node)
    return bool(name) and name not in functions and name not in LOOKS | QUIET | REPORTS


def logs(node: ast.AST) -> bool:
    """It is a statement that logs."""
    return isinstance(node, ast.Expr) and call_name(node.value) in LOGS


def is_quiet(node: ast.AST) -> bool:
    """It only logs, or tests whether to."""
    return logs(node) or (isinstance(node, ast.If) and not node.orelse and all(map(logs, node.body)))


def only_logs(node: ast.If) -> bool:
    """What it does where the test holds is to log, and to remember in a variable that it has."""
    return not node.orelse and all(logs(row) or isinstance(row, (ast.Assign, ast.AugAssign)) for row in node.body)
