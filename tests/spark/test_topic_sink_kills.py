"""From topic to topic, each message once, while all that a query needs is killed in mid-epoch, one after another."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.spark import topic_copy_program
from tests.spark.messages import messages_of
from tests.spark.standalone import Driver, Standalone
from tests.spark.trial import VICTIMS, Trial
from tests.spark.worlds import APACHES, OURS, World

IS_SOAK = bool(os.environ.get("APOGEE_SOAK"))
MESSAGES = 1_000_000 if IS_SOAK else 10_000
EPOCH_SIZE = 20_000 if IS_SOAK else 2_000
ROUNDS = 4 if IS_SOAK else 1
QUEUES_PER_BROKER = 4
PADDING = 1_000  # a batch of rows that does not fill a buffer would wait in it for the next one
SEED = int(os.environ.get("APOGEE_SEED", "7"))


def written(world: World, target: str) -> int:
    return sum(world.max_offsets(target).values())


def is_amid_writes(trial: Trial, source: str, target: str, last: int) -> bool:
    """Whether the epoch in flight, a later one than the last that was struck, has written some of its messages and not
    all."""
    epoch, done = trial.checkpoint.in_flight(), trial.checkpoint.committed_count(source)
    return epoch is not None and epoch > last and done < written(trial.world, target) < done + EPOCH_SIZE * 3 // 4


def play(world: World, standalone: Standalone, folder: Path) -> tuple[Trial, str]:
    random, lives = Random(SEED), itertools.count(1)
    source, target = world.topic("copied", QUEUES_PER_BROKER), world.topic("copy", QUEUES_PER_BROKER)
    world.fill(source, ((b"%d" % number).ljust(PADDING) for number in range(MESSAGES)))

    def make_driver() -> Driver:
        args = (world.address, source, target, str(folder), str(EPOCH_SIZE))
        return standalone.driver(f"{world.kind}-copy-{next(lives)}", Path(topic_copy_program.__file__), args)

    with Trial(world, standalone, make_driver, folder / "checkpoint") as trial:
        last = -1
        for victim in [victim for _ in range(ROUNDS) for victim in random.sample(VICTIMS, len(VICTIMS))]:
            trial.wait_for(partial(is_amid_writes, trial, source, target, last), "an epoch is amid its writes")
            last = trial.checkpoint.last_committed() + 1
            trial.strike(victim, random.randrange(2))
        (folder / "hurry").touch()
        trial.wait_until_committed(source, MESSAGES)
        trial.traffic.look()
        (folder / "stop").touch()
        assert trial.driver.wait(timeout_s=90) == 0, trial.driver.tail()
    return trial, target


@pytest.mark.timeout(7_200 if IS_SOAK else 300)
@pytest.mark.parametrize("any_world", [OURS, APACHES] if IS_SOAK else [OURS], indirect=True)
def test_each_message_is_in_the_target_once(any_world: World, standalone: Standalone, tmp_path: Path) -> None:
    trial, target = play(any_world, standalone, tmp_path)
    found = messages_of(any_world, target)
    told = re.findall(r"left_out=([0-9]+), is_replay=True", everything_said(standalone, any_world.kind))
    print(
        f"\n{len(found)} messages for {MESSAGES}; {trial.report()}; "
        f"replays that the sink has seen: {len(told)}, messages left out by them: {sum(map(int, told))}"
    )
    assert len(found) == MESSAGES
    assert Counter(int(message.body) for message in found) == Counter(range(MESSAGES))
    assert len({message.message_id for message in found}) == MESSAGES
    assert set(trial.kills) == set(VICTIMS)
    assert trial.replayed
    assert sum(map(int, told)) > 0
    # A driver asks for offsets, and reads back what an epoch has written that comes again.
    assert trial.traffic.executors_bytes > MESSAGES * PADDING / 2
    assert trial.traffic.driver_bytes < trial.traffic.executors_bytes / 2


def everything_said(standalone: Standalone, kind: str) -> str:
    logs = (standalone.folder / "drivers").glob(f"{kind}-copy-*")
    return "".join(path.read_text(errors="replace") for path in logs if path.is_file())
