"""Which PySpark the Python of a worker imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from apogeemq.spark.runtime.python import worker_python

INSTALLED = Path(pyspark.__file__).parent
ZIPS = [str(path) for path in (INSTALLED / "python" / "lib").glob("*.zip")]
SHOW = "import os; print(os.environ.get('PYTHONPATH'))"


@pytest.fixture(autouse=True)
def no_spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)


def asked(python: str, program: str, *python_path: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(python_path)}
    return subprocess.check_output([python, "-c", program], env=env, text=True).strip()


def test_pyspark_comes_from_where_it_is_installed(tmp_path: Path) -> None:
    zips = sorted(ZIPS, reverse=True)  # PySpark's first, as Spark has them
    program = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    assert ".zip" in asked(sys.executable, program, *zips, "/more")
    assert ".zip" not in asked(worker_python(tmp_path), program, *zips, "/more")


def test_everything_else_in_the_path_stays(tmp_path: Path) -> None:
    python = worker_python(tmp_path)
    zips = sorted(ZIPS, reverse=True)
    assert asked(python, SHOW, *zips, "/a b", "/c/python/lib/pyspark.zip") == "/a b:/c/python/lib/pyspark.zip"
    assert asked(python, SHOW, "/a b", *zips) == os.pathsep.join(("/a b", *zips))
    assert asked(python, SHOW, "/a.zip") == "/a.zip"


def test_it_is_this_python_with_its_arguments(tmp_path: Path) -> None:
    shown = subprocess.check_output(
        [worker_python(tmp_path), "-c", "import sys; print(sys.executable, sys.argv[1:])", "a b", "$c"], text=True
    )
    assert shown.strip() == f"{sys.executable} ['a b', '$c']"


def test_the_sources_of_another_spark_are_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python(tmp_path) == sys.executable
    monkeypatch.setenv("SPARK_HOME", str(INSTALLED))
    assert worker_python(tmp_path) != sys.executable


def test_a_pyspark_that_other_processes_do_not_find_is_left_to_the_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "elsewhere" / "pyspark" / "__init__.py"))
    assert worker_python(tmp_path) == sys.executable


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3"), ({"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "2"}, "2")],
)
def test_numpy_starts_no_threads_unless_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str
) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert asked(worker_python(tmp_path), "import os; print(os.environ['OPENBLAS_NUM_THREADS'])") == expected
