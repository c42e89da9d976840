"""What is in a folder that somebody else may have written: its settings, its code, the programs that it names."""
