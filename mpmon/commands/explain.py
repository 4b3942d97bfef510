"""`mpmon explain [CAUSE]`: the manual page of a cause or of a remark's topic, which is the docstring of its module."""

from __future__ import annotations

import argparse

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
        raise UsageError(f"there is no cause {given.cause!r}, and no topic.", "List them with: mpmon explain")
    print(f"{given.cause}\n\n{pages[given.cause]}")
    return 0


def _listed(pages: dict[str, str]) -> str:
    """Names with the first line of each page."""
    return "\n".join(f"{name:<22} {page.splitlines()[0]}" for name, page in sorted(pages.items()))


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = argparse.ArgumentParser(prog="mpmon explain", description="The manual page of a cause or a topic.")
    made.add_argument("cause", nargs="?", metavar="CAUSE", help="or the topic of a remark; without it, the lists")
    return made
