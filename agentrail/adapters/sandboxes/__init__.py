"""The sandboxes that ship."""
