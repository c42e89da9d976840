"""AG-UI as a face of the host: a session for front ends that speak the Agent User Interaction Protocol."""
