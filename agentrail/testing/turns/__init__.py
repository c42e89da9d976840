"""Whole turns from scripts, without Trio: what is played, what came of it, and what must hold."""
