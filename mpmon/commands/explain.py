"""`mpmon explain [TOPIC]`: a page of the manual, or that of a cause or a remark, which is the docstring of its module."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from difflib import get_close_matches

from mpmon.commands import options
from mpmon.errors import UsageError

WIDEST = 80
"""Columns of a page at most, as the pages of the manual are written; fewer where the terminal or COLUMNS has fewer."""

MENTIONS = 5
"""So many pages are named that have the word the user gave."""

NEWS = "changes"
"""It has all words, and explains none."""


ABOUT = "About mpmon:"
"""Title of the list of the manual's pages, whose lines have their width already."""

_FIXED = re.compile(r"^(?:\||    |-+$)", re.MULTILINE)
"""A line of a table, of a command, or below a heading."""

_BEGIN = re.compile(r"\n(?=- |[0-9]+\. |[A-Z][a-z ]+: )")
"""Before an item of a list, or a label such as "Why:"."""

_ITEM = re.compile(r"- |[0-9]+\. ")


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
    page = pages[given.topic]
    width = min(shutil.get_terminal_size().columns, WIDEST)
    is_made = given.topic in listed[ABOUT] and width == WIDEST
    print(f"{given.topic}\n\n{page if is_made else filled(page, width)}")
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
        ABOUT: {topic: manual.page(topic) for topic in manual.TOPICS},
    }


def filled(page: str, width: int) -> str:
    """The page in lines of this width, but for tables, commands and headings."""
    return "\n\n".join(block if _FIXED.search(block) else _block(block, width) for block in page.split("\n\n"))


def _block(block: str, width: int) -> str:
    return "\n".join(_part(part, width) for part in _BEGIN.split(block))


def _part(part: str, width: int) -> str:
    item = _ITEM.match(part)
    indent = " " * len(item[0]) if item else ""
    text = " ".join(part.split())
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _others(wanted: str, pages: dict[str, str]) -> str:
    """Topics the user may have meant and pages that have the word, else how to list them."""
    near = [name for name in pages if wanted in name] or get_close_matches(wanted, pages)
    word = re.compile(rf"\b{re.escape(wanted)}\b", re.IGNORECASE)
    times = {name: len(word.findall(page)) for name, page in pages.items() if name not in (*near, NEWS)}
    often = sorted((name for name in times if times[name]), key=lambda name: (-times[name], name))[:MENTIONS]
    said = [f"Similar pages: {', '.join(sorted(near))}"] if near else []
    said += [f"Pages that have this word: {', '.join(often)}"] if often else []
    return "; ".join(said) or "List them with: mpmon explain"


def _listed(pages: dict[str, str]) -> str:
    """Names with the first line of each page."""
    width = max(map(len, pages))
    return "\n".join(f"  {name:<{width}}  {page.splitlines()[0]}" for name, page in pages.items())


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(prog="mpmon explain", description="The manual: causes, remarks, and how mpmon works.")
    made.add_argument("topic", nargs="?", metavar="TOPIC", help="the name of a page; without it, list all pages")
    return made
