"""The interface of sessions, in Python and over HTTP: handles, commands, calls, bodies, problems; data, no I/O."""
