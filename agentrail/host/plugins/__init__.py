"""Host plugins: their contract, the order and isolation of their hooks, and how they reach into turns."""
