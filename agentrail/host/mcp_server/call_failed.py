"""`CallFailedError`, which the tool of the MCP server shows its client."""


class CallFailedError(Exception):
    """A host has refused a call, or could not carry it out. Its text is for the client."""
