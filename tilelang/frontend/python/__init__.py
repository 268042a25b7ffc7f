"""Python itself, interpreted: statements, expressions, calls, functions, classes, launches."""
