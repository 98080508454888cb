"""Our broker answers the fixed script as Apache's did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.broker import deviations, files, scenarios
from tests.golden.broker.capture import answers_path
from tests.golden.broker.compare import differences
from tests.golden.broker.files import Answers
from tests.golden.broker.replay import Replay
from tests.golden.broker.steps import Scenario
from tests.golden.steps import V5
from tests.peers import ours

ALLOWED = deviations.all_of(deviations.OURS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ours.NameServer]:
    with ours.NameServer(work_dir=tmp_path_factory.mktemp("namesrv")) as started:
        yield started


@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_answers_are_apaches(scenario: Scenario, server: ours.NameServer, tmp_path: Path) -> None:
    answers = _answers(scenario, server, tmp_path)
    golden = files.read(answers_path(V5, scenario))
    assert golden.keys() == answers.keys(), "the scenario has changed since the capture: run `make golden`"
    found = {(scenario.name, name): list(differences(golden[name], answers[name])) for name in golden}
    slips = {step: lines for step, lines in found.items() if lines and step not in ALLOWED}
    if slips:
        told = (f"{' / '.join(step)}: {line}" for step, lines in slips.items() for line in lines)
        pytest.fail(f"differs from Apache {V5}:\n" + "\n".join(told), pytrace=False)
    same = [step for step, lines in found.items() if not lines and step in ALLOWED]
    assert not same, f"listed as different from Apache {V5}"


def _answers(scenario: Scenario, server: ours.NameServer, work_dir: Path) -> Answers:
    with ours.Broker(server.address, work_dir=work_dir, properties=scenario.properties) as broker:
        return Replay(scenario, broker.port, server.port, str(work_dir)).run()


def test_deviations_name_real_steps() -> None:
    real = {(scenario.name, name) for scenario in scenarios.ALL for name in files.read(answers_path(V5, scenario))}
    assert real >= ALLOWED


def test_every_scenario_was_captured() -> None:
    wanted = {answers_path(V5, scenario) for scenario in scenarios.ALL}
    assert set(answers_path(V5, scenarios.ALL[0]).parent.iterdir()) == wanted
