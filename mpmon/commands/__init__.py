"""The commands, one file each; a file is imported only when its command is given.

To add one: a file here with `run(arguments) -> int`, which parses them and returns the exit status, and `parser()`, from
which shell completions are generated too; and a line in `COMMANDS`, or in `HIDDEN` if it is internal.
Any other first argument is a PID or an option, and goes to `watch`.  `options`, `settings`, `live` and `show` are what watching
commands share: the options they know, the settings file, the live job, and how observations are shown.
"""

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("[options] -- CMD", "start a job with the queue shim on, and watch it"),
    "demo": ("[SCENE]", "start a small demonstration job (most of them hang), and watch it (--list)"),
    "serve": ("[PID]", "the screen in a browser, on this machine only"),
    "export": ("[PID]", "Prometheus metrics of a running job; template files with --print"),
    "doctor": ("[PID]", "what can be read here, what cannot, and the remedy; --gpu for GPUs"),
    "explain": ("[TOPIC]", "the manual: causes, remarks, and how mpmon works"),
    "gc": ("[FOLDER]", "remove the shim's files of dead jobs"),
    "config": ("[options]", "the settings in effect, and where each comes from"),
    "completion": ("SHELL", "a completion script for bash, zsh or fish"),
}
"""By command name (also the name of its file): its arguments and its help text."""

HIDDEN = ("agent",)
"""Internal commands, which mpmon runs itself."""
