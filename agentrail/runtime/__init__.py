"""The runtime: tasks, timers and mailboxes that drive the machine with Trio; it reaches the world through ports."""
