"""Built-in plugins for the quality of answers: a plan first, a check of the work, a review of the answer."""
