"""Options of the data source `rocketmq-routes`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import INT64_MAX, OptionReader, wrong
from apogeemq.transport.addresses import format_address, parse_address

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

# A word, one number for all name servers, or a number for each.
Place: TypeAlias = str | int | tuple[tuple[str, int], ...]

_JSON_FORM: Final = '{"10.0.0.1:9876": 17}'


class RouteOptions(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
    starting: Place = EARLIEST
    ending: Place = LATEST  # not included
    max_events_per_trigger: int | None = None
    fail_on_data_loss: bool = True

    @classmethod
    def read(cls, given: Mapping[str, str], *, is_stream: bool | None = None) -> RouteOptions:
        """Raises ConfigError. `is_stream` None: not known yet."""
        options = OptionReader(given)
        found = cls(
            connection=Connection.read(options),
            starting=_place(options, "startingSequence", EARLIEST),
            ending=_place(options, "endingSequence", LATEST),
            max_events_per_trigger=options.whole("maxEventsPerTrigger", None, least=1),
            fail_on_data_loss=options.flag("failOnDataLoss", True),
        )
        options.finish()
        if is_stream is True and options.has("endingSequence"):
            raise ConfigError("option endingSequence is for batch reads: a stream has no end")
        if is_stream is False and options.has("maxEventsPerTrigger"):
            raise ConfigError("option maxEventsPerTrigger is for streams: a batch read has no triggers")
        if isinstance(found.starting, int) and isinstance(found.ending, int) and found.starting > found.ending:
            raise ConfigError(f"option startingSequence is {found.starting}, after endingSequence {found.ending}")
        return found


def _place(options: OptionReader, name: str, default: str) -> Place:
    text = options.text(name, default)
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    if not text.startswith("{"):
        expected = f"earliest, latest, a sequence number or one for each name server, {_JSON_FORM}"
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= INT64_MAX):
            raise wrong(name, text, expected)
        return int(text)
    members = options.json(name, f"sequence numbers by name server, {_JSON_FORM}") or {}
    return tuple(sorted((_address(name, address), _number(name, text, number)) for address, number in members.items()))


def _address(name: str, text: str) -> str:
    try:
        return format_address(*parse_address(text))
    except ConfigError as error:
        raise ConfigError(f"option {name}: {error}") from None


def _number(name: str, text: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= INT64_MAX:
        raise wrong(name, text, f"sequence numbers from 1 on, {_JSON_FORM}")
    return number
