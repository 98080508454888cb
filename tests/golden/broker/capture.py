"""Ask the real brokers again: part of ``python -m tests.golden.capture`` (`make golden`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.golden.broker import files, scenarios
from tests.golden.broker.steps import Scenario
from tests.golden.steps import V5
from tests.peers import apache
from tests.peers.netns import NetNamespace

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent


def answers_path(version: str, scenario: Scenario) -> Path:
    return HERE / "answers" / f"apache-{version}" / f"{scenario.name}.golden"


def captured(folder: Path, only: str) -> Iterator[tuple[Path, str]]:
    """Every file with what the peer says now. In a namespace: the replication port listens on all addresses."""
    with NetNamespace() as netns:
        for scenario in scenarios.ALL:
            path = answers_path(V5, scenario)
            if only in str(path):
                print(f"==> {path.relative_to(ROOT)}", flush=True)
                yield path, _answers(V5, scenario, folder / "broker" / scenario.name, netns)


def _answers(version: str, scenario: Scenario, work_dir: Path, netns: NetNamespace) -> str:
    quick = apache.QUICK_START
    with apache.NameServer(version, work_dir=work_dir / "namesrv", netns=netns, jvm_args=quick) as server:
        broker = apache.Broker(
            version,
            server.address,
            work_dir=work_dir / "broker",
            properties=scenario.properties,
            netns=netns,
            jvm_args=quick,
        )
        with broker:
            answers = _replayed(scenario, broker, server, netns)
    settings = ", ".join(f"{key}={value}" for key, value in scenario.properties.items()) or "its defaults"
    return files.dump((f"Apache RocketMQ {version}, broker with {settings}", scenario.about), answers)


def _replayed(
    scenario: Scenario, broker: apache.Broker, server: apache.NameServer, netns: NetNamespace
) -> files.Answers:
    program = (sys.executable, "-m", "tests.golden.broker.replay")
    command = [*netns.exec_prefix, *program, scenario.name, str(broker.port), str(server.port), str(broker.work_dir)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return files.load(done.stdout)
