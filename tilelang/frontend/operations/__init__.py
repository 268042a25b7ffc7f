"""Calls of the language: one family of `T.*` names each, from bound arguments to records of the program."""
