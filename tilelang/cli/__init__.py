"""The `tilelang` command: one file per sub-command. Nothing here is imported by the rest of the compiler."""
