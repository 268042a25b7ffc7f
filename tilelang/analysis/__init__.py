"""Rules about several statements, one file per rule, and the facts of a kernel."""
