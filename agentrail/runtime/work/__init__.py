"""Work that a session starts, each piece in a task of its own: requests, tool calls, plugin requests, jobs."""
