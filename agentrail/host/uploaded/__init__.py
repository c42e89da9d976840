"""Files that people upload to sessions."""
