"""What the documents say is there, is there; and what is there is in the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.figures.metrics import families
from apogeemq.protocol.codes import RequestCode
from apogeemq.runtime.config import known_keys
from apogeemq.store.config import StoreConfig
from tests.unit.broker.handlers.members import serving
from tests.unit.event_loop import in_loop

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "apogeemq"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]

_QUOTED = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
_PATH = re.compile(r"tests/[\w*/]+(?:\.py)?|(?:[\w*]+/)+[\w*]+\.py")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def broker_codes(text: str) -> dict[int, str]:
    """Code and name of every row of the broker's table."""
    table = text.split("## Request codes: broker")[1].split("\nNot yet:")[0]
    found: dict[int, str] = {}
    for row in re.findall(r"^\| (\d[\d, ]*) \| ([A-Z_0-9, ]+) \|", table, re.MULTILINE):
        codes, names = (part.split(", ") for part in row)
        found |= dict(zip(map(int, codes), names, strict=True))
    return found


@in_loop
async def test_every_request_of_the_broker_is_listed_with_its_name(tmp_path: Path) -> None:
    sent = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, RequestCode.RESET_CONSUMER_CLIENT_OFFSET}
    async with serving(tmp_path) as running:
        answered = set(running.broker.dispatcher.handlers)
    assert broker_codes(page("compatibility.md")) == {code: RequestCode(code).name for code in answered | sent}


def test_every_key_of_the_broker_is_listed() -> None:
    named = set(_QUOTED.findall(page("compatibility.md").split("## Keys of the broker's file")[1]))
    assert (known_keys(BrokerConfig) | known_keys(StoreConfig)) - named == set()


@in_loop
async def test_every_metric_of_the_broker_is_listed(tmp_path: Path) -> None:
    named = set(_QUOTED.findall(page("operations.md")))
    async with serving(tmp_path) as running:
        names = {family.name.removeprefix("apogee_broker_") for family in families(running.broker)}
    assert {name for name in names if not {name, f"{name}_total"} & named} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_is_named_exists(path: Path) -> None:
    text = path.read_text()
    files = list((ROOT / "tests").rglob("test_*.py"))
    functions = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    targets = [target for target, _ in _LINK.findall(text) if not (path.parent / target).exists()]
    names = _QUOTED.findall(text)
    unknown = [name for name in names if re.fullmatch(r"test_\w+", name) and name not in functions]
    unknown += [
        name for name in names if re.fullmatch(r"test_\w+\.py", name) and not any(file.name == name for file in files)
    ]
    unknown += [name for name in names if _PATH.fullmatch(name) and not _is_there(name)]
    assert targets + unknown == []


def test_the_example_of_the_guide_to_pipelines_is_the_one_in_the_tree() -> None:
    example = (ROOT / "examples" / "pipelines" / "orders.toml").read_text()
    assert f"```toml\n{example}```\n" in page("pipelines.md")


def _is_there(name: str) -> bool:
    """In the tree, in the package, or in the folder that a row has named before."""
    roots = (ROOT, SOURCE, SOURCE / "broker", ROOT / "tests" / "unit" / "broker")
    return any(any(root.glob(name.rstrip("/"))) for root in roots)


def test_every_failure_that_is_tested_is_described() -> None:
    files = (ROOT / "tests" / "robustness").glob("test_client_*.py")
    tested = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert tested - set(_QUOTED.findall(page("client-failures.md"))) == set()
