"""Parses shell command lines for `SecurityGuard` and `HumanApproval`, and judges them; nothing is run."""
