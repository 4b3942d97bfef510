"""Programs that the cases run in separate processes: the only files here that may import torch."""
