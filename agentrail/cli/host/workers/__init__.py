"""`agentrail serve --cores`: several processes at one port, which one more process starts and watches."""
