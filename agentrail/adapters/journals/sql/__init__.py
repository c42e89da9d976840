"""A journal in a database: the same tables and statements for SQLite and PostgreSQL."""
