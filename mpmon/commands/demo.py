"""`mpmon demo [SCENE]`: a small real job that hangs, started, watched and cleaned up."""

from __future__ import annotations

import argparse

from mpmon.commands import live, options, settings, show
from mpmon.errors import tell


def run(arguments: list[str]) -> int:
    """Start a scene and watch it, or name the scenes."""
    given = settings.parse(parser(), arguments)
    from mpmon import demo

    if given.list:
        needs = {False: "", True: " (needs torch)"}
        print("\n".join(f"{scene.name:<14} {scene.title}{needs[scene.needs_torch]}" for scene in demo.scenes()))
        return 0
    live.check_machine()
    show.sink(given)  # Contradictory options are reported before a job is started.
    with demo.start(given.scene or demo.DEFAULT_SCENE) as running:
        tell(f"demo job {running.pid}: {running.label}")
        given.about = f"demo: {running.label}"
        status = live.watch(given, running.pid)
    tell("the demo job was ended")
    return status


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon demo", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Start a small demonstration job (most of them hang), and watch it. All its processes are gone afterwards.",
    )  # fmt: skip
    options.add_watching(made)
    made.add_argument("scene", nargs="?", metavar="SCENE", help="which job (see --list)")
    made.add_argument("--list", action="store_true", help="list the scenes")
    return made
