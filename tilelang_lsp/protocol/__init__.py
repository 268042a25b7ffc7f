"""Between the language server protocol and our own records: types, capabilities, custom requests."""
