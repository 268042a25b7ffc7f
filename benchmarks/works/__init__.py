"""How each example is measured, by topic; benchmarks/example_table.py lists the examples."""
