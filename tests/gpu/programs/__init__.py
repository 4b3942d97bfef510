"""Jobs of the cases that need a whole one."""
