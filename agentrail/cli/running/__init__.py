"""`agentrail run`: one prompt, for scripts."""
