"""`agentrail chat`: what a person types, and what the conversation shows."""
