"""Programs of the tests, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import NamedTuple

from tests.our_servers import complaints

_HEAD = """
import os, signal, sys, threading, time
from apogeemq.blocking import *
from apogeemq.errors import *
address = sys.argv[1]
FROM_FIRST = ConsumerOptions(start_from="first")
"""


class Ended(NamedTuple):
    status: int
    output: str
    errors: str


def program(code: str, address: str) -> subprocess.Popen[str]:
    """It finds the classes of the client, and the name server as `address`."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _HEAD + textwrap.dedent(code), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(code: str, address: str) -> Ended:
    running = program(code, address)
    output, errors = running.communicate()
    return Ended(running.returncode, output, complaints(errors))
