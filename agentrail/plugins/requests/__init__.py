"""Built-in plugins that act on requests to the model: their messages, their cache marks, and which model gets them."""
