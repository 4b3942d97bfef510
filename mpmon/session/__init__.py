"""The imperative shell: the loop that makes snapshots, recordings, and the sources every mode iterates."""
