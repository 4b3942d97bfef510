"""Whole screens: the main one with the panels, and pages of text that lie on top of it."""
