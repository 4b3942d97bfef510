"""`mpmon demo [SCENE]`: a small real job that hangs, started, watched and cleaned up."""

from __future__ import annotations

import argparse
import sys

from mpmon.commands import live, options, settings, show


def run(arguments: list[str]) -> int:
    """Start a scene and watch it, or name the scenes."""
    given = settings.parse(parser(), arguments)
    from mpmon import demo

    if given.list:
        needs = {False: "", True: " (needs torch)"}
        print("\n".join(f"{scene.name:<14} {scene.title}{needs[scene.needs_torch]}" for scene in demo.scenes()))
        return 0
    show.sink(given)  # Options that contradict each other are told before a job is started.
    with demo.start(given.scene or demo.DEFAULT_SCENE) as running:
        print(f"mpmon: demo job {running.pid}: {running.label}", file=sys.stderr)
        status = live.watch(given, running.pid)
    print("mpmon: the demo job was ended", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = argparse.ArgumentParser(
        prog="mpmon demo", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Start a small real job that hangs, and watch it. Everything it started is gone afterwards.",
    )  # fmt: skip
    options.add_watching(made)
    made.add_argument("scene", nargs="?", metavar="SCENE", help="which job (see --list)")
    made.add_argument("--list", action="store_true", help="name the scenes")
    return made
