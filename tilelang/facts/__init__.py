"""What is known about a kernel, as plain versioned records that cross process borders as JSON."""
