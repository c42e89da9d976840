"""Events for subscribers: the bus, replay of past events, and traces of an actor's steps."""
