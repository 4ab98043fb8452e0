"""Contenders' names (METHOD:KEY=VALUE:...) in short, for tables and plots: without what a method's
variants share.
"""


def shared_options(methods: list[str]) -> dict[str, list[str]]:
    """By method with several variants, the options that they all have, as in their names."""
    variants: dict[str, list[list[str]]] = {}
    for name in dict.fromkeys(methods):
        kind, *options = name.split(":")
        variants.setdefault(kind, []).append(options)
    shared = {
        kind: [option for option in listed[0] if all(option in options for options in listed)]
        for kind, listed in variants.items()
        if len(listed) > 1
    }
    return {kind: options for kind, options in shared.items() if options}


def short_names(methods: list[str]) -> list[str]:
    """The names without shared options: what is left tells the variants apart."""
    shared, parts = shared_options(methods), [name.split(":") for name in methods]
    return [
        ":".join([kind, *[option for option in options if option not in shared.get(kind, [])]])
        for kind, *options in parts
    ]
