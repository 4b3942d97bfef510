"""CUDA memory between processes, on machines without a GPU."""
