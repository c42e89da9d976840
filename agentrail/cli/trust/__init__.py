"""What a person has to allow before a folder may do it, and what is then made of it."""
