"""The composition root: the supervisor, the registry of models, and the specification of a session."""
