"""OTP for LLM agents in Python: supervised sessions around a pure state machine, on Trio."""
