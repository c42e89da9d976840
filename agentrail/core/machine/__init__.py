"""The machine: a session's behaviour as a pure function from state and input to state, effects and events."""
