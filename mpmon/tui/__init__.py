"""The screen: the only package that knows Textual (`mpmon.tui.app` imports it, this file does not).

How a screen is drawn: a thread iterates a `Watch` and posts one message per `Observation` (`feed`),
the app joins its rows once (`scene`) and sets the result as an attribute on the screens,
a screen sets it on its panels, and each panel turns it into rows and lines of text (`tables`, `describe`)
and repaints those that changed (`widgets.lines`). `screens/heights` decides the height of each panel.
Rows that did not change stay the same objects (`tables/process_rows`), so that comparing and painting them costs nothing.
Attributes go down, messages go up; nothing in here queries the machine, so nothing in here can block.
The three exceptions, the full environment of a process, signals to it and saved screens, are passed in by the code that opens
the screen, and run in a separate thread (`background`).

Where to add things: a panel is a file in `panels/` and a line in its table; a key is a line in `keys`;
a page of text (fullscreen) is a function in `describe/` and a line in `screens/pages.py`.
"""
