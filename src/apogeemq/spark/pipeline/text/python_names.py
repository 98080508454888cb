"""Which names a Python module gives functions, as far as its text tells. Pure: nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# What these bind stays within them, or, of classes, is no function by itself.
_OWN_NAMES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def names_defined(source: bytes) -> set[str] | None:
    """Of functions, variables and imports, wherever outside of functions; None when others decide (`import *`, a
    `__getattr__`). SyntaxError, or ValueError."""
    names: set[str] = set()
    for node in _outside_of_functions(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return None if names & {"*", "__getattr__"} else names


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    is_declaration = isinstance(node, ast.AnnAssign) and node.value is None  # `x: T` alone binds nothing
    if not is_declaration and not isinstance(node, _OWN_NAMES):
        for child in ast.iter_child_nodes(node):
            yield from _outside_of_functions(child)
