"""A disk that refuses: senders hear of it, readers do not, and nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from apogeemq.testing.faulty_files import failing_syncs, full_disk
from tests.crash.sent_messages import WAIT_SECONDS, Sender, missing, strangers
from tests.robustness.small_disk import can_mount

MOUNT = 'mount -t tmpfs -o size=$1 tmpfs "$0" && shift && exec "$@"'


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_a_failed_sync_stops_writing_not_reading(tmp_path: Path, part: str) -> None:
    sender, root = Sender(Random(1)), tmp_path / "store"
    with sender.opened(root) as opened:
        sender.send(opened, 100)
        sender.wait_for_acknowledgements(opened)
        before = sender.acknowledged
        with failing_syncs(lambda path: part in str(path.relative_to(root)), errno.EIO) as failed:
            with suppress(OSError):  # the end of a file may be the first to hear of it
                sender.send(opened, 100)
            assert sender.failures.get(timeout=WAIT_SECONDS).errno == errno.EIO
            opened.request_flush()
        assert failed
        assert opened.store.why_not_writable() is not None
        assert opened.store.why_not_writable() == "a flush failed: Input/output error"
        assert missing(opened.store, sender.sent) == []
        if part == "commitlog":
            assert sender.acknowledged == before
            assert opened.flush_figures.failure_count == 1
    assert sender.failures.empty()
    with sender.opened(root) as opened:
        assert not opened.recovered.was_clean
        assert opened.store.why_not_writable() is None
        assert missing(opened.store, sender.sent) == []


@pytest.mark.parametrize("seed", range(10))
def test_without_room_a_message_is_refused_whole(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sender, root = Sender(random), tmp_path / "store"
    refusals = 0
    with sender.opened(root) as opened:
        sender.send(opened, 30)
        with full_disk(root, random.randrange(200_000)) as disk:
            for _ in range(200):
                try:
                    sender.send(opened, 1)
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    refusals += 1
            assert disk.refusal_count >= refusals > 0
            assert strangers(opened.store, sender.sent) == []
        in_index = missing(opened.store, sender.sent)
        assert len(in_index) <= opened.store.index_failure_count
        sender.send(opened, 50)
        assert missing(opened.store, sender.sent[-50:]) == []
    with sender.opened(root) as opened:
        assert opened.recovered.was_clean
        assert missing(opened.store, [sent for sent in sender.sent if sent not in in_index]) == []


@pytest.mark.skipif(not can_mount(), reason="mounting a small file system is not allowed here")
def test_a_real_small_file_system_fills_up_and_nothing_dies(tmp_path: Path) -> None:
    """A store into a hole of a full disk would end the process: its blocks have to be there before."""
    script = Path(__file__).with_name("fill_small_disk.py")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["unshare", "--mount", "sh", "-c", MOUNT, str(folder), str(1536 * 1024)]
    command += [sys.executable, str(script), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "everything is there"
