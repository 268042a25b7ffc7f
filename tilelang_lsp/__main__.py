"""`python -m tilelang_lsp` is the command `tilelang-lsp`."""

from tilelang_lsp.server import main

if __name__ == "__main__":
    main()
