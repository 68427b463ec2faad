"""Where a collector keeps what it has: one set of tables, in SQLite or in PostgreSQL."""
