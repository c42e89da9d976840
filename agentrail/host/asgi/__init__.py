"""The host as an ASGI 3 app: requests and answers of a server that nobody here wrote, such as hypercorn or uvicorn."""
