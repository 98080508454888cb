"""Take every golden file again from the real peers: ``python -m tests.golden.capture`` (`make golden`).

Prints how what they sent now differs from the files and exits 1 if it does; with ``--write``, updates the files.
"""

from __future__ import annotations

import contextlib
import difflib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tests.golden import files, java_frames, scenarios
from tests.golden.broker import capture as broker_capture
from tests.golden.files import Frames
from tests.golden.replay import Replay
from tests.golden.steps import V4, V5, Scenario
from tests.peers import apache
from tests.peers.netns import NetNamespace

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def answers_path(version: str, scenario: Scenario) -> Path:
    return HERE / "answers" / f"apache-{version}" / f"{scenario.name}.golden"


def frames_path(version: str, group: str) -> Path:
    return HERE / "frames" / f"apache-{version}" / f"{group}.golden"


def main(
    write: Annotated[bool, typer.Option(help="Update the files instead of only showing differences.")] = False,
    only: Annotated[str, typer.Option(help="Only files whose path holds this text.")] = "",
) -> None:
    """Capture the golden files again from real Apache peers."""
    different = 0
    with tempfile.TemporaryDirectory(prefix="apogee-golden-") as folder:
        for path, text in _captured(Path(folder), only):
            before = path.read_text() if path.exists() else ""
            if text == before:
                continue
            different += 1
            name = str(path.relative_to(ROOT))
            sys.stdout.writelines(
                difflib.unified_diff(before.splitlines(True), text.splitlines(True), name, "captured")
            )
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    print(f"{different} files {'written' if write else 'differ'}" if different else "no difference")
    raise typer.Exit(1 if different and not write else 0)


def _show(name: str, before: str, after: str) -> None:
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, "captured"))


def _captured(folder: Path, only: str) -> Iterator[tuple[Path, str]]:
    for version in (V5, V4):
        with _network_of(version) as netns:
            for scenario in scenarios.ALL:
                path = answers_path(version, scenario)
                if version in scenario.versions and only in str(path):
                    print(f"==> {path.relative_to(ROOT)}", flush=True)
                    yield path, _answers(version, scenario, folder / version / scenario.name, netns)
            for group, capture in java_frames.GROUPS.items():
                path = frames_path(version, group)
                if only in str(path):
                    print(f"==> {path.relative_to(ROOT)}", flush=True)
                    yield path, capture(version, folder / version / group, netns)
    yield from broker_capture.captured(folder, only)


@contextlib.contextmanager
def _network_of(version: str) -> Iterator[NetNamespace | None]:
    """4.9 listens on all addresses, so it gets a network of its own."""
    if version != V4:
        yield None
        return
    with NetNamespace() as netns:
        yield netns


def _answers(version: str, scenario: Scenario, work_dir: Path, netns: NetNamespace | None) -> str:
    with apache.NameServer(
        version, work_dir=work_dir, properties=scenario.properties, netns=netns, jvm_args=apache.QUICK_START
    ) as server:
        frames = _replay(scenario, version, server.port, netns)
    settings = ", ".join(f"{key}={value}" for key, value in scenario.properties.items()) or "its defaults"
    about = (f"Apache RocketMQ {version}, name server with {settings}", scenario.about)
    text = files.dump(about, frames)
    return text.replace(str(work_dir), "<work>").replace(f"listenPort={server.port}", "listenPort=<port>")


def _replay(scenario: Scenario, version: str, port: int, netns: NetNamespace | None) -> Frames:
    if netns is None:
        return Replay(scenario, version, port).run()
    command = [*netns.exec_prefix, sys.executable, "-m", "tests.golden.replay", scenario.name, version, str(port)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return files.load(done.stdout)


if __name__ == "__main__":
    typer.run(main)
