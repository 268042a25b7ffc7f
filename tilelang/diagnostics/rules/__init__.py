"""The rules, one file per family; `diagnostics.registry` gathers them."""
