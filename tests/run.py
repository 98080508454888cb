"""What `make test` runs: pytest, and a few tests that failed once more, by themselves.

Real peers share two cores, and a machine may stand still for seconds: some tests then fail by their own time limits.
Those must pass in a run of their own, with servers of their own, and are named in any case. Where a failure that comes
and goes would be a finding (`_FIRM`) there is no second attempt, nor when many fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_MAX_AGAIN = 3
_FIRM = ("tests/crash/", "tests/property/", "tests/golden/", "tests/test_", "tests/spark/test_exactly_once")
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    _FAILED.unlink(missing_ok=True)
    code = _pytest("-n", "2", *arguments)
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    failed = sorted(json.loads(_FAILED.read_text()))
    if len(failed) > _MAX_AGAIN or any(test.startswith(_FIRM) for test in failed):
        return code
    print(f"\n{len(failed)} failed; once more, by themselves:", *failed, sep="\n  ", flush=True)
    if not (code := _pytest("--last-failed", "--last-failed-no-failures=none", *arguments)):
        print("\npassed only when run again:", *failed, sep="\n  ", flush=True)
    return code


def _pytest(*arguments: str) -> int:
    return subprocess.run((sys.executable, "-m", "pytest", "-ra", *arguments), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
