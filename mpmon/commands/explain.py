"""`mpmon explain [CAUSE]`: the manual page of a cause or of a remark's topic, which is the docstring of its module."""

from __future__ import annotations

import argparse
from difflib import get_close_matches

from mpmon.commands import options
from mpmon.errors import UsageError


def run(arguments: list[str]) -> int:
    """Print a page, or the lists: causes first, then topics."""
    given = parser().parse_args(arguments)
    from mpmon.diagnosis.remarks import TOPICS
    from mpmon.diagnosis.rules import RULES

    causes = {rule.CAUSE: (rule.__doc__ or "").strip() for rule in RULES}
    topics = {topic.TOPIC: (topic.__doc__ or "").strip() for topic in TOPICS}
    pages = causes | topics
    if given.cause is None:
        print(f"{_listed(causes)}\n\n{_listed(topics)}")
        return 0
    if given.cause not in pages:
        raise UsageError(f"there is no cause {given.cause!r}, and no topic.", _others(given.cause, pages))
    print(f"{given.cause}\n\n{pages[given.cause]}")
    return 0


def _others(wanted: str, pages: dict[str, str]) -> str:
    """Those the user may have meant, else how to find one."""
    near = [name for name in pages if wanted in name] or get_close_matches(wanted, pages)
    return f"There is: {', '.join(sorted(near))}" if near else "List them with: mpmon explain"


def _listed(pages: dict[str, str]) -> str:
    """Names with the first line of each page."""
    width = max(map(len, pages))
    return "\n".join(f"{name:<{width}}  {page.splitlines()[0]}" for name, page in sorted(pages.items()))


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(prog="mpmon explain", description="The manual page of a cause or a topic.")
    made.add_argument("cause", nargs="?", metavar="CAUSE", help="or the topic of a remark; without it, the lists")
    return made
