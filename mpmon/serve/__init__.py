"""The screen in a browser: textual-serve, with a door of our own.

textual-serve starts a process for each browser window and carries its screen over a websocket.  By itself it lets any page
of any site open that websocket and has the browser fetch a font from elsewhere; `server` adds a secret in the address, looks
at who asks, and shows a page of our own.
"""
