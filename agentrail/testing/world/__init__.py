"""Whole sessions in a plausible world, without Trio: what may happen, and what is checked after each step."""
