"""Skills: folders with a `SKILL.md`, of which the model sees name and description, and reads the text on demand."""
