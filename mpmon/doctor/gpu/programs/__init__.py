"""What the cases run in processes of their own: the only files here that may import torch."""
