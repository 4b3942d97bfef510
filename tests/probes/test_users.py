from __future__ import annotations

from pathlib import Path

from mpmon.probes.users import name_of, user_names


def test_names_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_text(
        "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:/bin/sh\n# note\nada:x:1000:1000:A:/home/ada:/bin/sh\n+::::::\n"
    )
    assert user_names(str(file)) == {0: "root", 1000: "ada"}


def test_without_the_file_nobody_has_a_name(tmp_path: Path) -> None:
    assert user_names(str(tmp_path / "none")) == {}


def test_a_user_without_a_name_is_its_number() -> None:
    assert (name_of(0), name_of(2**31 - 7)) == ("root", "uid 2147483641")
