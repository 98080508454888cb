"""Run a pipeline as a program of `spark-submit`, which brings its own master, logs and files.

    spark-submit --master URL --py-files apogeemq.zip submit.py FILE [--once | --continuous] [--param NAME=VALUE]…

Each change of status is one line of JSON. SIGTERM ends it when its epochs are finished.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from apogeemq.errors import ApogeeError, PipelineFailed
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.sessions import open_session
from apogeemq.spark.pipeline.spec import Trigger
from apogeemq.spark.pipeline.status import StateFolder, states_folder
from apogeemq.spark.pipeline.text.parameters import given_parameters


def main(arguments: Sequence[str] | None = None) -> int:
    """0 done or stopped, 1 the pipeline failed, 2 the file or the command is wrong."""
    given = _parser().parse_args(arguments)
    stop = threading.Event()
    try:
        spec = read_pipeline(given.file, given_parameters(given.param), environment=os.environ)
        if given.once:
            spec = msgspec.structs.replace(spec, trigger=Trigger())
        elif given.continuous and spec.trigger.is_bounded:
            spec = msgspec.structs.replace(spec, trigger=Trigger(interval_ms=0))
        state = StateFolder((given.state or states_folder()) / spec.name)
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        open_spark = partial(open_session, spec, None, state.logs)
        run_pipeline(spec, open_spark, state, on_status=_print, stop=stop, accepts_changes=given.accept_changes)
    except PipelineFailed as failure:
        print(f"the pipeline failed: {failure}", file=sys.stderr)
        return 1
    except ApogeeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="submit.py", description="Run a pipeline under spark-submit.")
    parser.add_argument("file", help="a pipeline file, or the name of a ready pipeline")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a value of [params]")
    parser.add_argument("--state", type=Path, metavar="DIR", help="folder of states and logs (~/.apogee/pipelines)")
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--once", action="store_true", help="do all there is now, then end")
    how_long.add_argument("--continuous", action="store_true", help="go on until stopped")
    parser.add_argument("--accept-changes", action="store_true", help="go on though it reads or writes elsewhere now")
    return parser


def _print(status: msgspec.Struct) -> None:
    print(msgspec.json.encode(status).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
