"""Tests of layouts: fragments, shared memory, instruction tables, bank conflicts."""
