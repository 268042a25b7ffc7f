"""Source emission shared by the C-family targets: dialects, device helpers, expressions, statements."""
