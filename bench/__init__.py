"""What a session costs, against the same job on bare Trio in the same run."""
