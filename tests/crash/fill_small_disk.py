"""Run on a small file system: fill it through a store, again and again, by little and by much, and read it all back."""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.crash.sent_messages import Sender, missing, strangers

ROUNDS = 30


def fill(folder: Path) -> None:
    with (folder / "filler").open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


def main(folder: Path) -> None:
    random = Random(7)
    sender = Sender(random)
    filler, refused = folder / "filler", 0
    with sender.opened(folder / "store") as opened:
        for _ in range(ROUNDS):
            fill(folder)
            with filler.open("ab") as file:  # give back some pages
                file.truncate(max(0, filler.stat().st_size - random.choice((0, 4096, 16_384, 40_000))))
            for _ in range(40):
                try:
                    sender.send(opened, 1)
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
                    refused += 1
            assert strangers(opened.store, sender.sent) == []
        lost_keys = missing(opened.store, sender.sent)
        assert len(lost_keys) <= opened.store.index_failure_count
        assert opened.store.flush_error is None, opened.store.flush_error
    print(f"{len(sender.sent)} taken, {refused} refused")
    assert refused > 100
    assert len(sender.sent) > 100
    filler.unlink()
    with sender.opened(folder / "store") as opened:
        assert opened.recovered.was_clean
        assert missing(opened.store, [sent for sent in sender.sent if sent not in lost_keys]) == []
        assert strangers(opened.store, sender.sent) == []
    print("everything is there")


if __name__ == "__main__":
    logging.disable()
    main(Path(sys.argv[1]))
