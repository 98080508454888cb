"""Names that a package offers, of modules that are loaded when they are first asked for.

A process that plans a stream lives for seconds and needs one class of the client's; to load the others, too, would take
a good part of its start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def names_on_demand(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """What `__getattr__` of the package must be; `modules` says for each name where it comes from."""

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)  # nobody asks again
        return found

    return find
