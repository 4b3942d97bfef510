"""The screen in a browser: textual-serve, with its own access control.

textual-serve starts a process for each browser window and carries its screen over a websocket.  By itself it lets any page
of any site open that websocket and has the browser fetch a font from elsewhere; `server` adds a secret in the address, checks
the origin of requests, and serves its own page.
"""
