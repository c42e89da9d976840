"""Host plugins: their contract, the order and isolation of their hooks, and the session plugins that call them."""
