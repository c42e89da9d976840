"""A request and its answer, whichever server brings them: messages, who may send them, and their slots."""
