"""`mpmon explain [TOPIC]`: a page of the manual, or that of a cause or a remark, which is the docstring of its module."""

from __future__ import annotations

import argparse
from difflib import get_close_matches

from mpmon.commands import options
from mpmon.errors import UsageError


def run(arguments: list[str]) -> int:
    """Print a page, or the list of pages."""
    given = parser().parse_args(arguments)
    listed = sections()
    if given.topic is None:
        print("\n\n".join(f"{title}\n{_listed(pages)}" for title, pages in listed.items()))
        return 0
    pages = {topic: page for section in listed.values() for topic, page in section.items()}
    if given.topic not in pages:
        raise UsageError(f"there is no manual page {given.topic!r}.", _others(given.topic, pages))
    print(f"{given.topic}\n\n{pages[given.topic]}")
    return 0


def sections() -> dict[str, dict[str, str]]:
    """All pages by topic, under the titles of the lists; the most useful list comes last, just above the prompt."""
    from mpmon import manual
    from mpmon.diagnosis.remarks import TOPICS
    from mpmon.diagnosis.rules import RULES

    causes = {rule.CAUSE: (rule.__doc__ or "").strip() for rule in RULES}
    remarks = {topic.TOPIC: (topic.__doc__ or "").strip() for topic in TOPICS}
    return {
        "Causes of a hang:": dict(sorted(causes.items())),
        "Remarks (warnings that are not hangs):": dict(sorted(remarks.items())),
        "About mpmon:": {topic: manual.page(topic) for topic in manual.TOPICS},
    }


def _others(wanted: str, pages: dict[str, str]) -> str:
    """Topics the user may have meant, else how to list them."""
    near = [name for name in pages if wanted in name] or get_close_matches(wanted, pages)
    return f"Similar pages: {', '.join(sorted(near))}" if near else "List them with: mpmon explain"


def _listed(pages: dict[str, str]) -> str:
    """Names with the first line of each page."""
    width = max(map(len, pages))
    return "\n".join(f"  {name:<{width}}  {page.splitlines()[0]}" for name, page in pages.items())


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(prog="mpmon explain", description="The manual: causes, remarks, and how mpmon works.")
    made.add_argument("topic", nargs="?", metavar="TOPIC", help="the name of a page; without it, list all pages")
    return made
