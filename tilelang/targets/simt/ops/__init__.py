"""How tile operations run on the threads of a block, one file per operation."""
