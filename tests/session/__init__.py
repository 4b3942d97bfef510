"""The shell around the facts: recordings, the sampler, and how a watch ends."""
