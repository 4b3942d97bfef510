"""What a process does, in as many cells as there are: the kind of wait and the line of code stay. Pure."""

from __future__ import annotations

import re

from rich.cells import cell_len

from mpmon.tui.line import fit

WAITING = "waiting for "
"""How an action may begin with what the column of states says already."""

LEAST = 6
"""Cells of an action before its place; with fewer the place gives way."""

_PLACE = re.compile(r"(?: in [^ ]+)? at ([^ ]+:[0-9]+)")
"""The function, and the file and line."""

_ARTICLE = re.compile(r"^(?:an?|the|its) ")

SHORT = (
    ("multiprocessing ", "mp "),
    ("threading ", ""),
    ("child to exit", "child exit"),
    ("children to exit", "children"),
    ("subprocess to exit", "subprocess"),
    ("processes to exit", "process exits"),
    ("thread to end", "thread end"),
    ("threads to end", "thread ends"),
    ("result of a pool task", "pool result"),
    ("result of a task", "task result"),
    ("item from a queue", "queue item"),
    ("item from a thread queue", "queue item"),
    ("room in a queue", "queue room"),
    ("data from a pipe", "pipe data"),
    ("room in a pipe", "pipe room"),
    ("data from a socket", "socket data"),
    ("room in a socket", "socket room"),
    ("events of its descriptors", "fd events"),
    ("events of its loop", "loop events"),
    ("others at a barrier", "barrier"),
    ("key of the store", "store key"),
    ("blocked in open() of a named pipe", "open() FIFO"),
    ("blocked in ", ""),
    ("polling with short sleeps", "polling"),
    ("matching a regular expression", "regex match"),
    ("in a busy loop", "busy loop"),
)
"""How common actions begin, and the same in few cells; the word that tells one from another comes first."""


def brief(does: str, room: int) -> str:
    """What it does, without the function and what follows the line number if there is no room for them, and then in fewer
    words.
    """
    if cell_len(does) <= room:
        return does
    found = _PLACE.search(does)
    if found is None:
        return _in_fewer_words(does)
    if cell_len(does[: found.end()]) <= room:
        return does[: found.end()]
    place = f" at {found[1]}"
    action, left = does[: found.start()], room - cell_len(place)
    for said in (action, action.removeprefix(WAITING), _in_fewer_words(action)):
        if cell_len(said) <= left:
            return said + place
    return fit(_in_fewer_words(action), left) + place if left >= LEAST else _in_fewer_words(does)


def _in_fewer_words(action: str) -> str:
    action = _ARTICLE.sub("", action.removeprefix(WAITING))
    return next((short + action[len(long) :] for long, short in SHORT if action.startswith(long)), action)
