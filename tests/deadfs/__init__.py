"""A real file system that stops answering, as NFS whose server is gone: the kernel's FUSE with a server of our own.

The server speaks the kernel's protocol on /dev/fuse, in pure Python and without libfuse, so that a test can tell it when to die:

- `silent`: it no longer reads requests.  Whoever asks waits, but SIGKILL ends the wait, as it does on NFS.
- `swallow`: it reads them and never replies, as a server whose back end is gone.  Whoever asks waits, and not even SIGKILL
  ends that: the process stays, in state D.

`answer` ends both, and replies to what was swallowed.  The kernel keeps neither names nor attributes, so it asks each time;
only pages of files it has read are in its cache.

It leaves nothing behind: the end of the server, however it comes, ends the connection and with it every wait; and the server
ends when its standard input does, so also when a test is killed.  The connection is that one descriptor of /dev/fuse; nobody
inherits it.

Rooms: `protocol` is the kernel's side, `contents` what lies there, `server` the program, `calls` the system calls;
`mounting` starts and commands it, `jobs` runs one of `programs/` on it.
"""
