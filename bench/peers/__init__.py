"""The same jobs as other frameworks do them, each in a program that its own environment runs."""
