"""Who is wired to whom: the supervisor, the registry of models, the specification of a session."""
