"""Several hosts on one journal."""
