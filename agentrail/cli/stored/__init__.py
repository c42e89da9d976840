"""Commands that read, copy and delete the sessions of a journal, and what is asked before one comes back."""
