"""What a session does in the world, each in a task of its own: requests, calls, asks, jobs."""
