"""The ranks of a job: which there are, where they look for each other, and which is behind.

- `starts`, `world`: which ranks belong to this start of the job, and which of them are not observed;
- `sequence_numbers`: who is behind whom, by the Flight Recorders;
- `ahead`: which of two has come further in the program; `addresses`: which addresses mean this machine.
"""
