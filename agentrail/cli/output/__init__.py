"""What each command prints, asks and ends with."""
