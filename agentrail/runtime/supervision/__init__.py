"""Supervisors, the children that they start, watch and start again, and sub-agents."""
