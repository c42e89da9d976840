"""Commands that tell what is there: on this machine, in an agent, at a host."""
