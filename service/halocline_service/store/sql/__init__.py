"""The store in a database: SQLite on one machine, or PostgreSQL."""
