"""The pages about the client: their programs run, and their tables are those of the code."""

from __future__ import annotations

import inspect
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from apogeemq import client, errors
from tests.our_servers import complaints, our_servers

ROOT = Path(__file__).parent.parent
CLIENT_PAGE = (ROOT / "docs" / "client.md").read_text()
ADDRESS = "127.0.0.1:9876"  # that of the pages

# Programs of the pages may use `await` outside of functions, as in `python -m asyncio`.
_RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.argv[1], "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, names))
else:
    exec(code, names)
"""
_BLOCK = re.compile(r"(?P<mark><!-- until stopped -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    page: str
    line: int
    code: str
    runs_until_stopped: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text()
    for found in _BLOCK.finditer(text):
        yield Block(page, text.count("\n", 0, found.start("code")) + 1, found["code"], found["mark"] is not None)


BLOCKS = [*blocks("README.md"), *blocks("docs/client.md")]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found


def start(code: str, address: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", _RUNNER, code.replace(ADDRESS, address)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_there_are_blocks_of_both_kinds() -> None:
    assert {block.page for block in BLOCKS} == {"README.md", "docs/client.md"}
    assert {block.runs_until_stopped for block in BLOCKS} == {True, False}
    assert all(ADDRESS in block.code for block in BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs(block: Block, address: str) -> None:
    """One that runs until it is stopped has printed something before; the blocks above it have sent messages."""
    running = start(block.code, address)
    assert running.stdout is not None
    if block.runs_until_stopped:
        assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
    _, shown = running.communicate()
    if block.runs_until_stopped:
        assert complaints(shown).splitlines()[-1:] in ([], ["KeyboardInterrupt"])
    else:
        assert (running.returncode, complaints(shown)) == (0, "")


# -- tables ------------------------------------------------------------------------------------------------------


def section(title: str) -> str:
    return CLIENT_PAGE.split(f"\n{title}\n")[1].split("\n#")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


OPTIONS: dict[str, type[msgspec.Struct]] = {
    "### ClientConfig": client.ClientOptions,
    "### DefaultMQProducer": client.ProducerOptions,
    "### DefaultMQPushConsumer": client.ConsumerOptions,
    "### DefaultLitePullConsumer": client.LitePullOptions,
    "### DefaultMQPullConsumer": client.PullOptions,
}


def test_every_kind_of_options_has_a_table() -> None:
    kinds = {kind for kind in vars(client).values() if inspect.isclass(kind) and kind.__name__.endswith("Options")}
    assert set(OPTIONS.values()) == kinds


@pytest.mark.parametrize("title", OPTIONS)
def test_the_table_of_options_is_complete(title: str) -> None:
    fields = [field.name for field in msgspec.structs.fields(OPTIONS[title])]
    named = [name for row in rows(section(title)) for name in _QUOTED.findall(row[1])]
    assert sorted(named) == sorted(fields)


@pytest.mark.parametrize("title", OPTIONS)
def test_no_name_of_apache_comes_twice(title: str) -> None:
    named = [name for row in rows(section(title)) for name in _QUOTED.findall(row[0])]
    assert [name for name in named if named.count(name) > 1] == []


def test_options_named_elsewhere_exist() -> None:
    kinds = {kind.__name__: kind for kind in OPTIONS.values()}
    found = re.findall(r"`(\w+Options)\.(\w+)`", CLIENT_PAGE)
    assert found
    assert [f"{kind}.{name}" for kind, name in found if not hasattr(kinds[kind], name)] == []


def test_every_error_is_there() -> None:
    known = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ApogeeError) and value is not errors.ApogeeError
    }
    text = section("## When something fails")
    in_table = {name for row in rows(text) for name in _QUOTED.findall(row[0]) if name[0].isupper() and name.isalpha()}
    of_servers = set(_QUOTED.findall(text.split("belong to servers")[0].splitlines()[-1]))
    assert in_table | of_servers == known


def test_every_cause_of_no_route_is_there() -> None:
    table = CLIENT_PAGE.split("\n| `NoRoute.cause` | |\n")[1].split("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"^\| `(\w+)` \|", line)}
    assert named == {cause.name for cause in errors.RouteCause}
