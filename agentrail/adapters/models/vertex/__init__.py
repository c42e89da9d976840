"""The models of Vertex AI: Google's and Anthropic's, each in its own format, under Google Cloud's addresses.

The formats follow the public documentation, `python-genai` and `anthropic-sdk-python`, read in
November 2026.
"""
