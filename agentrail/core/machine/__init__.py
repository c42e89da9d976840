"""The transition table and `step`, with one module for each group of inputs."""
