"""What is known of a step that blocks, an actor that crashes and a plugin that breaks."""
