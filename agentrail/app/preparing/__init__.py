"""What specifications are made of: blueprints, and the files whose texts stand in the prompt."""
