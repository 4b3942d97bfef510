"""One job on many machines, judged as one.

Each machine tells what it sees, never what it thinks of that: of one hang each would blame another process, since a rank
that waits for ranks elsewhere looks the same whoever keeps them.  So facts are joined, not findings:

- `join`: snapshots of several machines become one, in which every pid, kernel object and moment means one thing; both ends
  of a TCP connection find each other.  The one diagnosis then answers for the whole job, and all views show it.
- `rounds`: recordings that were made on each machine by hand, matched in time and joined (`mpmon --replay A B C`).
- `digest`: what a machine of thousands says in some hundred bytes: classes of ranks that stand alike.
- `choose`: whose facts are worth asking for, given the digests of all; the rest stands in the table `elsewhere`. Of few
  machines these are all.

These four are pure.  What brings the facts:

- `wire`: the messages, framed so that nothing a carrier adds, tears, loses or repeats is taken for one.
- `here`, `agent`: what runs on each machine (`mpmon agent --stdio`); it ends with whoever started it.
- `transports`: which programs carry it (srun, ssh, kubectl), and what their complaints mean.
- `fleet`, `front`: all agents together, as one watch.

To people a process is a rank, a host and the pid it has there; the numbers that `join` gives it are
keys of the tables, and nobody is shown them.
"""
