"""Settings from a file: what it may say, what counts more, and what is told when it is wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mpmon.commands import options, run, settings, show
from mpmon.errors import UsageError
from mpmon.tui import themes
from mpmon.tui.app import MonitorApp
from mpmon.tui.options import Options
from tests.probes.test_door import LEASES, Openings, lives_on
from tests.sleepers import sleeper
from tests.test_cli import ENVIRONMENT, HUNG, mpmon, one_sentence
from tests.tui.fakes import FakeWatch

ON_A_SCREEN = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file would be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mpmon").mkdir()
    return tmp_path / "mpmon" / "config.toml"


def parsed(*arguments: str) -> dict[str, object]:
    return vars(settings.parse(options.program(), list(arguments)))


def environment(file: Path) -> dict[str, str]:
    return {**ENVIRONMENT, "XDG_CONFIG_HOME": str(file.parent.parent)}


def test_without_a_file_nothing_is_set(file: Path) -> None:
    assert settings.read() == {}
    assert parsed() == vars(options.program().parse_args([]))


def test_every_setting_is_taken(file: Path) -> None:
    file.write_text('interval = 2\nstacks = "never"\nreadonly = true\ncolor = "never"\ntheme = "nord"\nascii = true\n')
    taken = parsed()
    assert [taken[name] for name in ("interval", "stacks", "readonly", "color", "theme", "ascii")] == [
        2.0, "never", True, "never", "nord", True,
    ]  # fmt: skip
    assert set(settings.read()) == {action.dest for action in settings.settable().values()}


def test_the_command_line_counts_more(file: Path) -> None:
    file.write_text('interval = 2\nreadonly = true\ncolor = "always"\n')
    taken = parsed("--interval", "5", "--no-readonly", "--no-color")
    assert (taken["interval"], taken["readonly"], taken["color"]) == (5.0, False, "never")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("intervall = 2", "'intervall', which is not a setting. Settings are: ascii, color, interval"),
        ("once = true", "'once', which is not a setting"),
        ("[interval]\nseconds = 2", "'interval' to {'seconds': 2}. It must be as for --interval"),
        ("interval = 0", "'interval' to 0. It must be as for --interval"),
        ("interval = true", "'interval' to True"),
        ('stacks = "some"', "It must be one of: auto, py-spy, native, never"),
        ("readonly = 1", "It must be true or false"),
        ("readonly: true", "is not TOML: "),
        ("interval = 1\ninterval = 2", "is not TOML: "),
    ],
)
def test_what_is_wrong_is_one_sentence(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    told = one_sentence(mpmon("7", "--once", env=environment(file)), 2)
    assert str(file) in told
    assert words in told


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b"theme = '\xff'")
    assert "is not TOML" in one_sentence(mpmon("7", env=environment(file)), 2)


def test_a_file_that_may_not_be_read_is_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under sudo, when it is the file of somebody else."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    file.write_text("plain = true\n")
    monkeypatch.setattr("mpmon.probes.door.take_named", refuse)
    assert settings.read() == {}


def test_a_folder_in_its_place(file: Path) -> None:
    file.mkdir()
    assert "cannot be read: it is a folder, not a regular file" in one_sentence(mpmon("7", env=environment(file)), 2)


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    openings = Openings(file)
    assert "cannot be read: it is a named pipe, not a regular file" in one_sentence(
        mpmon("7", env=environment(file)), 2
    )
    assert not openings.there_were(), "to open a device may do something"


def test_a_link_to_the_settings_is_followed(file: Path) -> None:
    """As those who keep all their settings in one folder have it."""
    file.with_name("elsewhere").write_text("plain = 7\n")
    file.symlink_to("elsewhere")
    assert "elsewhere" not in (told := one_sentence(mpmon("7", env=environment(file)), 2))
    assert "plain" in told


def test_a_lease_on_the_settings_is_not_broken(file: Path) -> None:
    file.write_text("")
    with sleeper(LEASES, arguments=[str(file)]) as child:
        assert "has a lease of another process on it" in one_sentence(mpmon("7", env=environment(file)), 2)
        assert lives_on(child)


def test_a_file_without_an_end(file: Path) -> None:
    file.write_bytes(b"#" * (settings.LONGEST + 1))
    assert "is too long" in one_sentence(mpmon("7", env=environment(file)), 2)


@pytest.mark.parametrize("bracket", ["[", "{a="])
def test_a_file_of_nothing_but_brackets(file: Path, bracket: str) -> None:
    file.write_text(f"a = {bracket * 10000}")
    assert "is nested too deeply" in one_sentence(mpmon("7", env=environment(file)), 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "interval" + ".a" * 30_000 + " = 1",
            "'interval' to {'a': {'a': {'a': {'a': {'a': {'a': {...}}}}}}}. It must be",
        ),
        ("interval = " + "[" * 90 + "]" * 90, "'interval' to [[[[[[[...]]]]]]]. It must be"),
        ("interval = [" + "1, " * 20_000 + "]", "'interval' to [1, 1, 1, 1, 1, 1, ...]. It must be"),
        ("interval = 0x" + "f" * 60_000, ". It must be as for --interval"),
        ("interval = " + "9" * 60_000, "is not TOML: "),
        ("stacks = '" + "x" * 60_000 + "'", "It must be one of: auto, py-spy, native, never."),
        ("x" * 60_000 + " = 1", "which is not a setting. Settings are: ascii, "),
        ("x" * 30_000 + " = 1\n" + "x" * 30_000 + " = 1", "is not TOML: "),
        ("theme = '" + "x" * 60_000 + "'", "there is no theme 'xxx"),
    ],
)
def test_what_is_long_or_deep_is_told_in_short(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    told = one_sentence(mpmon("--replay", HUNG, env={**environment(file), **ON_A_SCREEN}), 2)
    assert words in told
    assert len(told) < 2100


def test_without_a_home_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python leaves `~` where nobody knows whose home it is; the current folder may hold one of that name."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / settings.location()).parent.mkdir(parents=True)
    (tmp_path / settings.location()).write_text("interval = 2")
    assert settings.read() == {}


def test_help_works_whatever_is_in_the_file(file: Path) -> None:
    file.write_text("nonsense")
    assert mpmon("--help", env=environment(file)).returncode == 0


@pytest.mark.parametrize("place", ["", "relative/folder"])
def test_a_place_that_is_not_absolute_is_ignored(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", place)
    monkeypatch.setenv("HOME", "/home/ada")
    assert settings.location() == "/home/ada/.config/mpmon/config.toml"


def test_python_3_10_needs_tomli(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("ascii = true")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(UsageError, match=r"Python 3\.10 has no TOML parser") as told:
        settings.read()
    assert "pip install tomli" in told.value.remedy


def test_what_is_in_effect_and_where_it_comes_from(file: Path) -> None:
    file.write_text('interval = 2\nstacks = "never"\n')
    answer = mpmon("config", "--interval", "5", env=environment(file))
    assert (answer.returncode, answer.stderr) == (0, "")
    first, *rows = answer.stdout.splitlines()
    assert first == f"# {file}"
    told = [row.replace(" ", "").partition("#") for row in rows]
    assert [(what, source) for what, _, source in told] == [
        ("ascii=false", "default"),
        ('color="auto"', "default"),
        ("interval=5.0", "commandline"),
        ("readonly=false", "default"),
        ('stacks="never"', "file"),
        ('theme="ansi-dark"', "default"),
    ]


def test_what_is_printed_is_a_file_of_settings(file: Path) -> None:
    printed = mpmon("config", "--interval", "5", "--ascii", env=environment(file)).stdout
    assert "there is no such file" in printed
    file.write_text(printed)
    assert (parsed()["interval"], parsed()["ascii"]) == (5.0, True)


def test_a_theme_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no theme 'mauve'") as told:
        themes.check("mauve")
    assert "ansi-dark, ansi-light" in told.value.remedy


def test_a_theme_that_exists() -> None:
    assert Options().theme == options.DEFAULT_THEME
    themes.check("nord")
    assert MonitorApp(FakeWatch(), Options(theme="nord")).theme == "nord"


def test_no_demo_job_is_started_for_a_theme_that_does_not_exist() -> None:
    answer = mpmon("demo", "--theme", "mauve", env={**ENVIRONMENT, **ON_A_SCREEN})
    assert "there is no theme 'mauve'" in one_sentence(answer, 2)
    assert "demo job" not in answer.stderr


def test_no_command_is_run_for_a_theme_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_has_terminal", lambda: True)
    monkeypatch.setattr(show, "in_browser", lambda: True)
    with pytest.raises(UsageError, match="there is no theme 'mauve'"):
        run.run(["--theme", "mauve", "--", "touch", "started"])
    assert list(tmp_path.iterdir()) == []
