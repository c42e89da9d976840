"""What those who watch a host see of it: figures, and whether it is ready."""
