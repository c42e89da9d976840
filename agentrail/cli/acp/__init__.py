"""An editor as the face of a session: the Agent Client Protocol over standard input and output."""
