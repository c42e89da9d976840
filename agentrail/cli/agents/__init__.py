"""What an agent of the command line is made of, and which agents this user has begun."""
