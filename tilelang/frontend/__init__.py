"""Python source to tile program: an abstract interpreter over the AST, in a live and in a static
environment.
"""
