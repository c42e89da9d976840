"""What a handle does with its session: send to it, read its status, change its code."""
