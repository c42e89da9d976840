"""Who serves sessions: `agentrail serve`, and the host that all terminals of one user share."""
