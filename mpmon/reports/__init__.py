"""Observations as text: `text` for people, `document` for programs. One file per format."""
