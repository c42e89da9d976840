"""What a session tells: the bus, events that are heard again, and traces."""
