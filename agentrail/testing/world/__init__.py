"""Whole sessions in a plausible world, without Trio: what may happen, and what may come of it."""
