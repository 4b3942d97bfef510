"""The probes, on recorded text and on small trees in the form of /proc."""
