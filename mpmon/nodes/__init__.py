"""One job on many machines: an agent on each says what it sees, the front end joins that and judges it as one."""
