"""What is said of sessions (whose they are, titles, labels), and the lists of sessions that it is used for."""
