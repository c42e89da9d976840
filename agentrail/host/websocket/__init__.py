"""`WS /v1/ws`: calls and subscriptions of one client on one connection."""
