"""What holds for every test: hypothesis profiles, which tests stay together when several processes share them, and
skips counted as failures where nobody would read them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import hypothesis
import pytest
from xdist.remote import Producer

from tests.sharing_out import FolderScheduling, rank_of

SKIPPED = 6
"""How a run ends in which tests were skipped and must not be; pytest's own codes end with 5."""

# Wall-clock deadlines measure the machine, not the code: none.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=5_000)
hypothesis.settings.load_profile("soak" if os.environ.get("APOGEE_SOAK") else "default")


def pytest_configure() -> None:
    """With APOGEE_COMPILED=1 the hot modules must be the compiled ones, or the run shows nothing.

    A run in the background of a shell ignores Ctrl-C, and so would every program it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("APOGEE_COMPILED") == "1":
        from apogeemq.store import message_store

        if str(message_store.__file__).endswith(".py"):
            raise pytest.UsageError(f"{message_store.__file__} is not compiled; see `make compiled`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of one process among several
        items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    return FolderScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """A report parses the source of what failed; early versions of Python 3.11 raise SystemError when a collection of
    garbage, whose own complaints are parsed as well, comes in between, and that would end the whole run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With APOGEE_NO_SKIP=1 (CI) a run that skipped anything fails; `-ra` has printed the reasons."""
    ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if os.environ.get("APOGEE_NO_SKIP") != "1" or session.exitstatus not in ended:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = len(terminalreporter.stats.get("skipped", []))
    if skipped and os.environ.get("APOGEE_NO_SKIP") == "1":
        terminalreporter.write_line(f"{skipped} skipped, and APOGEE_NO_SKIP=1 makes that a failure", red=True)
