"""Several hosts on one journal: a request for a session of another host is passed on to that host."""
