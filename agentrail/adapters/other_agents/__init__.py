"""A tool that calls an agent elsewhere by the protocol A2A."""
