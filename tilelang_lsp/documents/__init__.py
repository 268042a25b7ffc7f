"""The text of open files: edits, line index, position encodings, incremental parse, where the kernels are."""
