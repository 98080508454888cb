"""What is sent to executors: complete, importable, and the same bytes every time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from apogeemq.spark.runtime.py_files import NEEDED, as_archives, write_dependencies, write_package

# Nothing but the standard library and what is put on the path.
BARE = (sys.executable, "-I", "-S", "-c")


def test_the_package_works_from_the_zip_with_nothing_installed(tmp_path: Path) -> None:
    zipped = write_package(tmp_path / "apogeemq.zip")
    unpacked = tmp_path / "files"
    for archive in write_dependencies(tmp_path / "dependencies"):
        zipfile.ZipFile(archive).extractall(unpacked / archive.stem)
    code = f"""
import sys
sys.path[1:1] = [{str(zipped)!r}, {str(unpacked)!r}]
import apogeemq.blocking, apogeemq.protocol.record, apogeemq.spark
print(apogeemq.blocking.__file__)
"""
    shown = subprocess.check_output([*BARE, code], text=True)
    assert shown.strip() == f"{zipped}/apogeemq/blocking/__init__.pyc", (
        "read from the text, which takes ten times as long"
    )


def test_another_python_reads_the_text(tmp_path: Path) -> None:
    zipped = write_package(tmp_path / "apogeemq.zip")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(zipped) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, b"\0\0\r\n" + content[4:] if name.endswith(".pyc") else content)
    code = f"import sys; sys.path.insert(1, {str(other)!r}); import apogeemq.errors; print(apogeemq.errors.__file__)"
    assert subprocess.check_output([*BARE, code], text=True).strip() == f"{other}/apogeemq/errors.py"


def test_the_same_package_is_the_same_zip(tmp_path: Path) -> None:
    first, second = write_package(tmp_path / "1.zip"), write_package(tmp_path / "2.zip")
    assert first.read_bytes() == second.read_bytes()


def test_the_zip_has_no_compiled_modules_and_nothing_for_tests(tmp_path: Path) -> None:
    names = zipfile.ZipFile(write_package(tmp_path / "apogeemq.zip")).namelist()
    assert "apogeemq/spark/runtime/py_files.py" in names
    assert [name for name in names if name.endswith(".so") or "/testing/" in name or "__pycache__" in name] == []


def test_archives_are_named_after_what_they_hold(tmp_path: Path) -> None:
    written = write_dependencies(tmp_path)
    assert {path.stem for path in written} >= set(NEEDED)
    assert as_archives(written[:2]) == f"{tmp_path}/msgspec.zip#msgspec,{tmp_path}/isal.zip#isal"
