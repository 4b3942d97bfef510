"""The manual: what `mpmon explain TOPIC` prints about mpmon itself; the pages of causes and remarks are docstrings.

To add a page: a file here, TOPIC.md, and a line in `TOPICS`.  Its first line is the sentence with which `mpmon explain`
lists it.  A page is printed as it is, on a narrow terminal in shorter lines, so it is plain text of at most 80 columns that
happens to be Markdown: headings are underlined, commands indented, a table that is too wide is a list, and there are no links.
Facts that the program knows are not repeated here: causes, remarks, keys and options list themselves, and
tests compare what has to be repeated (tests/test_manual.py, tests/test_readme.py).
"""

from __future__ import annotations

from pathlib import Path

TOPICS = (
    "screen",
    "reports",
    "recordings",
    "alerts",
    "rights",
    "how-it-decides",
    "limits",
    "safety",
    "cost",
    "many-nodes",
    "flight-recorder",
    "native",
    "gpu",
    "shim",
    "serve",
    "settings",
    "comparison",
    "confirmed",
    "changes",
)
"""In the order in which they are listed: what most readers look for first."""


def page(topic: str) -> str:
    """The text of one of `TOPICS`, without a newline at its end."""
    return (Path(__file__).parent / f"{topic}.md").read_text(encoding="utf-8").rstrip()
