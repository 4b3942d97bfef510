"""Reusable drawing: the line widget every panel is made of, and the line of keys."""
