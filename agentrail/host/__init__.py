"""The host: sessions served over HTTP, and the plugins that concern requests and process life."""
