"""The state folder: what others see of a pipeline, while it runs and after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.progress import PipelineStatus, QueryStatus, SourceStatus, State
from apogeemq.spark.pipeline.status import StateFolder, find_state, known_states, known_statuses, states_folder


def running(state: State = State.RUNNING) -> PipelineStatus:
    source = SourceStatus("rocketmq", None, {"t": {"a": {"0": 3}}}, {"t": {"a": {"0": 4}}}, 1)
    query = QueryStatus(name="orders", rows=3, lag=1, sources=[source])
    return PipelineStatus(name="p", state=state, process=42, log_file="/l/spark.log", queries=[query])


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    folder.write(running())
    assert folder.read() == running()
    assert [state.name for state in known_states(tmp_path)] == ["p"]
    assert find_state(tmp_path, "p").read() == running()


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    folder.acquire()
    folder.write(running())
    assert folder.is_held()
    with pytest.raises(ConfigError, match="the pipeline p is running as process 42; --state names another folder"):
        StateFolder(tmp_path / "p").acquire()
    folder.release()
    assert not folder.is_held()


def test_a_folder_held_once_more_stays_held(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    with folder.held():
        folder.ask_to_stop()
        with folder.held():
            assert folder.is_asked_to_stop()
        assert folder.is_held()
    assert not folder.is_held()


def test_a_folder_that_cannot_be_had_is_not_said_to_be_in_use(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file")
    with pytest.raises(ConfigError, match="cannot use the data folder"):
        StateFolder(tmp_path / "p").acquire()


def test_a_process_that_was_killed_has_failed(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.status import StateFolder
folder = StateFolder(Path({str(tmp_path)!r}) / "p")
folder.acquire()
folder.write(PipelineStatus(name="p", state=State.RUNNING, process=7, log_file="/l"))
assert folder.present().state is State.RUNNING
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    status = StateFolder(tmp_path / "p").present()
    assert (status.state, status.error) == (State.FAILED, "process 7 ended without a word; see /l")


def test_a_finished_pipeline_stays_finished(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    folder.write(running(State.FINISHED))
    assert folder.present() == running(State.FINISHED)


def test_a_wish_to_stop_is_of_one_run(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    folder.acquire()
    assert not folder.is_asked_to_stop()
    StateFolder(tmp_path / "p").ask_to_stop()
    assert folder.is_asked_to_stop()
    folder.release()
    folder.acquire()
    assert not folder.is_asked_to_stop()
    folder.release()


def test_a_pipeline_nobody_knows(tmp_path: Path) -> None:
    StateFolder(tmp_path / "orders").write(running())
    with pytest.raises(ConfigError, match=r"no pipeline oders has run here .*; did you mean orders\?"):
        find_state(tmp_path, "oders")
    assert list(known_states(tmp_path / "nowhere")) == []


def test_a_status_that_cannot_be_read(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "p")
    folder.path.mkdir()
    (folder.path / "status.json").write_text("{")
    with pytest.raises(ConfigError, match=r"status\.json is damaged: .*; the next run writes it anew"):
        folder.read()


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": "p"}', b'{"name": "\xff", "state": "running"}', b"\0" * 9])
def test_one_that_is_damaged_does_not_hide_the_others(tmp_path: Path, content: bytes) -> None:
    StateFolder(tmp_path / "a").write(running(State.FINISHED))
    damaged = StateFolder(tmp_path / "b")
    damaged.write(running())
    (damaged.path / "status.json").write_bytes(content)
    first, second = known_statuses(tmp_path)
    assert first == running(State.FINISHED)
    assert (second.name, second.state) == ("b", State.DAMAGED)
    assert second.error is not None and "is damaged" in second.error
    with damaged.held(), pytest.raises(ConfigError, match=r"^the pipeline b is running; --state names"):
        StateFolder(damaged.path).acquire()


def test_where_states_are() -> None:
    assert states_folder({"APOGEE_PIPELINES": "/states"}) == Path("/states")
    assert states_folder({}) == Path.home() / ".apogee" / "pipelines"
