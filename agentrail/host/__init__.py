"""The host: sessions served to people and programs."""
