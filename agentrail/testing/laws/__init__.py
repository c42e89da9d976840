"""Laws that each plugin has to obey: what they are, how they are tried, and how a run that breaks one is shrunk."""
