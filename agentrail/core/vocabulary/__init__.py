"""Data types of the state machine: its inputs, its state and its effects. Read these modules first."""
