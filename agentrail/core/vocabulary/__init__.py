"""What goes into the machine, what it keeps and what comes out of it: data alone, to be read first."""
