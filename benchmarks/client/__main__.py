"""`python -m benchmarks.client`: our client and others, alternately, on the same broker."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.client import cases
from benchmarks.client.contenders import BROKERS, Contenders
from benchmarks.report import Page
from benchmarks.rows import Row
from benchmarks.runner import Case, Wish, run
from benchmarks.settings import Settings

FULL = Settings(rounds=3, seconds=2.0, warm_up_s=6.0, quick=False)
QUICK = Settings(rounds=1, seconds=1.0, warm_up_s=3.0, quick=True)
_PER_QUEUE = {False: 64_000, True: 16_000}

_INTRODUCTION = """\
# Benchmarks: the Python client beside others

Made by `{command}`; do not edit by hand.

{machine}

Every client runs in a process of its own; all of them do the same, alternately, in one run. Each figure is the median
of the rounds and *ratio* is ours divided by the other's. *Rounds' ratios* are the lowest and the highest of any single
round.

- The others: Apache's Java client 5.5.0, warm; PyPI's `rocketmq` 0.4.4 (ctypes around the C++ client; it blocks, so
  that each message in flight has a thread); PyPI's `rocketmq-python-client` 5.1.2 (gRPC, through Apache's proxy); and
  aiokafka on a Kafka 3.9.1 broker, as the reference for what an asyncio client reaches. A client that could not run is
  not in the table; the command says why. PyPI's `rocketmq-client-python` needs a C++ library that must be
  installed by hand, and is left out.
- Our client and aiokafka run on uvloop: a program chooses its loop, as in `uvloop.run(main())`. Both work on the
  standard library's loop too.
- Bodies have 128 bytes, topics eight queues (Kafka: partitions). Servers and clients share the machine's cores, so that
  *messages per CPU-second*, which counts the CPU time of the client's process alone (all its threads), says more
  about a client than *messages per second*. A million microseconds divided by it is the CPU time of one message.
- *n in flight*: n loops, each of which sends one message and waits for its answer. *Automatic batches*: the program
  hands message after message to the client, which puts them together (up to 32 KiB or 10 ms); every answer is looked
  at. The two other Python clients of RocketMQ cannot do that.
- *Without await*: `apogeemq.blocking`, of which a thread that waits for its message sends it itself, on a connection of
  its own. With one message in flight, `rocketmq`, which blocks, is held against that.
- *Ready-encoded frames, no client*: one frame after the other on a blocking socket, each when the last was answered.
  With one message in flight no client can send faster than that to this broker on this machine, whatever the target.
- aiokafka always puts what waits at the same moment into one batch, also in the cases of n in flight, where each of our
  messages is a request of its own. Ours does the same when told to (`joins_sends`): the case *joined*. It is not
  the default, because all messages of such a moment go to one queue, and so to one consumer of a group; are stored or
  refused together; and come again together when a broker does not answer in time. The target of aiokafka's is held
  against *joined*, where both do the same; our default beside aiokafka as it comes, and beside aiokafka with *one
  message a batch* (for which it is not made: it has one request at a time on its way to a broker), are shown without
  one.
- *Consume*: a new group reads a full topic from its first message on and acknowledges each message; in ours and
  aiokafka by `async for`, in the others by a listener.
- Memory is what is resident after a round. Before a round, free memory that the host of the virtual machine has taken
  back is fetched: brokers need new pages for what they write, and would wait for them.
"""


def _case(run: Callable[..., Iterator[Row]], **fixed: object) -> Case[Contenders]:
    return partial(run, **fixed)


CASES: dict[str, Case[Contenders]] = {
    f"{name}-{broker}": _case(case, broker=broker, **fixed)
    for broker in BROKERS
    for name, case, fixed in (
        ("send-1", cases.sends, {"in_flight": 1}),
        ("send-64", cases.sends, {"in_flight": 64}),
        ("send-64-joined", cases.joined_sends, {}),
        ("batch", cases.batches, {}),
        ("consume", cases.consuming, {}),
    )
    if (name, broker) != ("send-64-joined", "ours")  # nobody to compare with: Kafka's client has a broker of its own
}
_ROOT = Path(__file__).parent.parent.parent
_PAGE = Page(_ROOT / "docs" / "benchmarks-client.md", "client: ours beside others", _INTRODUCTION, "other")
_JSON = _ROOT / "build" / "benchmarks" / "client.json"


def main(
    quick: Annotated[bool, typer.Option(help="One short round: rougher figures.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"A case; may be repeated: {', '.join(CASES)}.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds per case [default: 3; with --quick 1].")] = None,
    json: Annotated[Path, typer.Option(help="Where the figures of every round go.")] = _JSON,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks-client.md anew.")] = False,
) -> None:
    """Our client beside others: messages per second and CPU-second sent and consumed, memory."""
    wish = Wish("benchmarks.client", quick, only or [], rounds, json, write_docs, False)
    run(wish, CASES, _contenders(quick), wish.settings(FULL, QUICK), _PAGE)


@contextlib.contextmanager
def _contenders(quick: bool) -> Iterator[Contenders]:
    with (
        tempfile.TemporaryDirectory(prefix="apogee-bench-", ignore_cleanup_errors=True) as folder,
        Contenders(Path(folder), per_queue=_PER_QUEUE[quick]) as contenders,
    ):
        yield contenders
        for name, reason in contenders.missing.items():
            print(f"had problems: {name}: {reason}")


if __name__ == "__main__":
    typer.run(main)
