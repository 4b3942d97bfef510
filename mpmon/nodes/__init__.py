"""One job on many machines, judged as one.

Each machine reports facts, never conclusions: for one hang each would blame a different process, since a rank
that waits for ranks elsewhere looks the same whatever blocks them.  So facts are joined, not findings:

- `join`: snapshots of several machines become one, in which every pid, kernel object and moment means one thing; both ends
  of a TCP connection find each other.  The one diagnosis then answers for the whole job, and all views show it.
- `rounds`: recordings that were made on each machine by hand, matched in time and joined (`mpmon --replay A B C`).
- `digest`: how one of thousands of machines reports in some hundred bytes: classes of equal ranks.
- `choose`: which machines to request full facts from, given all digests; the rest go into the table `elsewhere`. With few
  machines, all are chosen.

These four are pure.  The modules that collect the facts:

- `wire`: the messages, framed so that anything a carrier adds, splits, loses or repeats is detected.
- `here`, `agent`: what runs on each machine (`mpmon agent --stdio`); it ends with whoever started it.
- `transports`: which programs carry it (srun, ssh, kubectl), and what their error messages mean.
- `members`: one node and the process that carries its agent; `pipes`: what goes in and out of these processes; `fleet`,
  `front`: all agents together, as one stream of observations; `job_choice`, `ras`, `sentences`: which job it is, NCCL's RAS
  through an agent, and what is said of nodes that do not answer.

Users see a process as a rank, a host and its pid there; the numbers that `join` assigns are
keys of the tables, and are never shown.
"""
