"""How the CPU does each tile operation: one file per operation, each returns plain loops over tiles."""
