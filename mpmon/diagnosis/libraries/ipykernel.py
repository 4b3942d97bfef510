"""ipykernel and its clients: a kernel runs the user's code in its main thread; its other threads work for the kernel alone.

Sources: heartbeat.py, iostream.py, parentpoller.py, control.py, shellchannel.py of ipykernel 6 and 7, core/history.py of IPython,
channels.py of jupyter_client 8.
"""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, functions

LIBRARY = Library(
    serves_itself=(
        functions("ipykernel/heartbeat.py", "run"),
        functions("ipykernel/iostream.py", "_thread_main _watch_pipe_fd"),
        functions("ipykernel/parentpoller.py", "run"),
        functions("ipykernel/control.py", "run"),
        functions("ipykernel/shellchannel.py", "run"),
        functions("ipykernel/thread.py", "run"),
        functions("IPython/core/history.py", "run"),
        functions("jupyter_client/channels.py", "_async_run"),
    ),
)
