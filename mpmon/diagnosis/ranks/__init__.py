"""The ranks of a job: which there are, and how those differ that wait for one another.

- `starts`, `world`: which ranks belong to this start of the job, and which of them are not observed;
- `sequence_numbers`: who is behind whom, by the Flight Recorders;
- `collectives`: how ranks in collectives differ from the others; `ahead`: which of two has come further in the program;
- `meeting`: which ranks of a rendezvous look in the wrong place.
"""
