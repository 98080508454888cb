"""Names that a module gives functions, found without running it."""

from __future__ import annotations

import pytest

from apogeemq.spark.pipeline.text.python_names import names_defined


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("", set()),
        ("def f(): g = 1", {"f"}),
        ("import a.b, c as d\nfrom e import f as g, h", {"a", "d", "g", "h"}),
        ("f = g = lambda x: (y := x)\n(a, [b, *c]) = d", {"f", "g", "a", "b", "c"}),
        ("f: Callable[..., int] = g\nh: int", {"f"}),
        ("if x:\n  def f(): pass\nelif y:\n  def g(): pass\nelse:\n  h = 1", {"f", "g", "h"}),
        ("try:\n  from a import f\nexcept ImportError as e:\n  def g(): pass\nfinally:\n  h = 1", {"f", "g", "h"}),
        ("with a as b:\n  for c in d:\n    while (e := f):\n      def g(): pass", {"b", "c", "e", "g"}),
        ("class A:\n  def f(self): pass\nasync def g(): pass\n[x for x in y]\nz.a = 1\nz[b] = 1", set()),
        ("from a import *\ndef f(): pass", None),
        ("if x:\n  from a import *", None),
        ("def __getattr__(name): pass", None),
        ("def f():\n  def __getattr__(name): pass", {"f"}),
    ],
)
def test_names(source: str, names: set[str] | None) -> None:
    assert names_defined(source.encode()) == names


def test_what_is_not_python() -> None:
    with pytest.raises(SyntaxError):
        names_defined(b"def f(:")
