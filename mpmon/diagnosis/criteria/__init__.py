"""What separates the causes from one another: for each stuck set at most one value of each fits.

- `signs`: what is a cause by itself, however the waits are shaped;
- `parts`: the part that the end of a chain plays in the job; `losses`: what the waiters lack because a process ended;
- `crossed_waits`: sides that wait for what the other will not do, though no lock is in a circle.
"""
