"""What everything else speaks of: messages, content, tool calls, usage, events, as frozen values."""
