"""What to do about a stuck set, chosen by what is known of it and not by the name of its cause: one cause has many remedies.

- `circles`: those that wait for each other, by the kinds of their waits;
- `stands`: one that stands in its own code, by what it does there;
- `practices`: best practices that apply to the job, whatever the cause.

How a process ended has its own advice, in `edges.deaths`; what only one rule can say stands in that rule.
"""
