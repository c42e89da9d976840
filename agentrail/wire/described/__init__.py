"""Descriptions of the interface of a host, made from its tables: an OpenAPI document, and a page."""
