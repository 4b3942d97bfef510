"""What was true in a recorded case: the form of `expected.toml`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

HOME = Path(__file__).parent


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ground truth, told by the job itself while it was recorded."""

    title: str
    verdict: str
    """hung, slow or healthy."""
    causes: tuple[str, ...] = ()
    """Cause ids that a careful person would accept, the best first."""
    suspects: tuple[int, ...] = ()
    """Pids of those who have to move first."""
    dead: tuple[int, ...] = ()
    """Those of them that had ended."""
    forgotten: bool = False
    """They had ended and been collected before mpmon came: nothing on the machine told their pids any more, so that nobody
    is to be named."""
    every_suspect: bool = False
    """All of them have to be named; else any one is enough."""
    lines: dict[str, tuple[int, ...]] = {}
    """Lines on which the suspects stand, by the name of the file."""
    roles: dict[str, str] = {}
    """What each process is, by pid."""

    @property
    def hangs(self) -> bool:
        """Nobody moves any more."""
        return self.verdict == "hung"


def cases() -> list[Path]:
    """The folders of all recorded cases."""
    return sorted(path.parent for path in HOME.glob("*/expected.toml"))


def read_expected(case: Path) -> Expected:
    """What was true in one of them."""
    return msgspec.toml.decode((case / "expected.toml").read_bytes(), type=Expected)


def to_toml(expected: Expected) -> str:
    """The inverse of `read_expected`; a JSON string is a TOML string too."""
    tables = {name: getattr(expected, name) for name in ("lines", "roles") if getattr(expected, name)}
    text = [
        f"{name} = {_value(getattr(expected, name))}"
        for name in Expected.__struct_fields__
        if name not in ("lines", "roles")
    ]
    for name, table in tables.items():
        text += ["", f"[{name}]", *(f"{json.dumps(key)} = {_value(value)}" for key, value in table.items())]
    return "\n".join(text) + "\n"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
