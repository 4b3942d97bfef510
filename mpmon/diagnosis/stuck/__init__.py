"""A set of threads in which nobody can make progress without another one, and the facts about it that several causes need.

- `stuck_set`: its root blockers, what they wait in, and the chain from the goal;
- `collectives`, `meeting`: ranks in it that are in different collectives, or look for each other in the wrong place;
- `links`: its connections that lose bytes; `crashed_siblings`: the crashed workers whose siblings wait in vain;
- `joinable_queue`, `manager_calls`: queues joined by the one who has to serve them, calls of a manager's objects.
"""
