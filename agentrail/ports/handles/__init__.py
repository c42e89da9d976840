"""What handles of sessions and supervisors have in common, here and at a host."""
