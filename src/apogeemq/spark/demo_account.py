"""The demonstration's account: where every order is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import msgspec


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Orders, as counted in six places that know nothing of each other."""

    produced: int  # brokers said that they have them
    broken: int  # of these, as the producer knows
    stored: int  # in the topic
    read: int  # by Spark
    dead: int  # in the topic of dead letters
    in_topic: int  # in the windows of the revenue topic
    in_files: int  # in the windows of the Parquet files
    revenue_in_topic: Decimal
    revenue_in_files: Decimal
    failures: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        return not any(self.problems())

    def problems(self) -> Iterator[str]:
        """Every sentence says what does not fit."""
        yield from self.failures
        for count, where in ((self.stored, "are stored"), (self.read, "were read by Spark")):
            if count != self.produced:
                yield f"{self.produced} orders were produced and {count} {where}"
        if self.dead != self.broken:
            yield f"{self.broken} orders were broken and {self.dead} are dead letters"
        for count, where in ((self.in_topic, "the revenue topic"), (self.in_files, "the Parquet files")):
            if count + self.dead != self.produced:
                yield f"{count} orders are in {where} and {self.dead} are dead letters, of {self.produced}"
        if self.revenue_in_topic != self.revenue_in_files:
            yield f"the revenue is {self.revenue_in_topic} in the topic and {self.revenue_in_files} in the files"
        if not self.produced:
            yield "no order was produced"
