"""Our name server answers the fixed script as Apache's did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import deviations, files, scenarios
from tests.golden.capture import answers_path
from tests.golden.compare import differences
from tests.golden.files import Frames
from tests.golden.replay import Replay
from tests.golden.steps import BOTH, V4, V5, Scenario
from tests.peers import ours

UNANSWERED = "4.9 never answers a code it does not know; 5.x and ours answer that it is not supported, or know it"


@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_answers_are_apaches(scenario: Scenario, tmp_path: Path) -> None:
    answers = _answers(scenario, tmp_path)
    for version in scenario.versions:
        golden = files.read(answers_path(version, scenario))
        assert golden.keys() == answers.keys(), "the scenario has changed since the capture: run `make golden`"
        if version == V4:  # UNANSWERED
            golden = {name: frame or answers[name] for name, frame in golden.items()}
        found = {(scenario.name, name): list(differences(golden[name], answers[name], version)) for name in golden}
        slips = {step: lines for step, lines in found.items() if lines and step not in deviations.allowed(version)}
        if slips:
            told = (f"{' / '.join(step)}: {line}" for step, lines in slips.items() for line in lines)
            pytest.fail(f"differs from Apache {version}:\n" + "\n".join(told), pytrace=False)
        same = [step for step, lines in found.items() if not lines and step in deviations.certain(version)]
        assert not same, f"listed as different from Apache {version}"


def _answers(scenario: Scenario, work_dir: Path) -> Frames:
    config = work_dir / "namesrv.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in scenario.properties.items()))
    with ours.NameServer(work_dir=work_dir, args=("-c", str(config))) as server:
        return Replay(scenario, V5, server.port).run()


def test_deviations_name_real_steps() -> None:
    real = {(scenario.name, name) for scenario in scenarios.ALL for name in files.read(answers_path(V5, scenario))}
    assert deviations.allowed(V4) <= real


def test_every_scenario_was_captured() -> None:
    wanted = {answers_path(version, scenario) for scenario in scenarios.ALL for version in scenario.versions}
    there = {path for version in BOTH for path in answers_path(version, scenarios.ALL[0]).parent.iterdir()}
    assert there == wanted
