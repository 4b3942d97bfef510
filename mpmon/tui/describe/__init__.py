"""From facts to lines of text: pure functions, one file per subject, used by panels and pages alike."""
