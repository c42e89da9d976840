"""Commands in a container: the engine's command line, the container of a session, and the sandbox around both."""
