"""Who makes a request, and how many they may make."""
