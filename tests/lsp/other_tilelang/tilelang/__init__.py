"""Another package called tilelang, as a user's interpreter may hold: kernels are plain functions of torch."""


def jit(function=None, **options):
    """Leave the function as it is, with the name under which wrappers keep the original."""

    def wrap(inner):
        return inner

    return wrap if function is None else wrap(function)
