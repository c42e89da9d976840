"""The settings that a folder has for its agent, and the agent that there is without any."""
