from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError
from apogeemq.spark.routes.read_options import Place, RouteOptions

SERVER = {"nameServer": "127.0.0.1:9876"}


def test_nothing_but_the_address_is_needed() -> None:
    options = RouteOptions.read(SERVER)
    assert options.connection.name_server == "127.0.0.1:9876"
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.max_events_per_trigger is None
    assert options.fail_on_data_loss


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("EARLIEST", "earliest"),
        ("latest", "latest"),
        (" 17 ", 17),
        ('{"127.0.0.1:9876": 3, "::1:9877": 4}', (("127.0.0.1:9876", 3), ("[::1]:9877", 4))),
    ],
)
def test_places(text: str, place: Place) -> None:
    assert RouteOptions.read({**SERVER, "startingsequence": text}).starting == place


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "option nameServer is missing"),
        ({**SERVER, "startingSequence": "0"}, "option startingSequence is '0': expected earliest, latest"),
        ({**SERVER, "startingSequence": "-3"}, "startingSequence is '-3'"),
        ({**SERVER, "startingSequence": "soon"}, "startingSequence is 'soon'"),
        ({**SERVER, "endingSequence": '{"a": 3}'}, "option endingSequence: address 'a' is not of the form host:port"),
        ({**SERVER, "endingSequence": '{"a:1": "3"}'}, "expected sequence numbers from 1 on"),
        ({**SERVER, "endingSequence": '{"a:1": true}'}, "expected sequence numbers from 1 on"),
        ({**SERVER, "endingSequence": "{"}, "expected sequence numbers by name server"),
        ({**SERVER, "maxEventsPerTrigger": "0"}, "maxEventsPerTrigger"),
        ({**SERVER, "startingSequence": "9", "endingSequence": "8"}, "startingSequence is 9, after endingSequence 8"),
        ({**SERVER, "startingSequnce": "9"}, "unknown option startingSequnce; did you mean startingSequence?"),
        ({**SERVER, "subscribe": "T"}, "unknown option subscribe"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RouteOptions.read(given)
    assert complaint in str(raised.value)


def test_options_of_the_other_kind_of_read_are_refused() -> None:
    ending, most = {**SERVER, "endingSequence": "8"}, {**SERVER, "maxEventsPerTrigger": "8"}
    with pytest.raises(ConfigError, match="endingSequence is for batch reads"):
        RouteOptions.read(ending, is_stream=True)
    with pytest.raises(ConfigError, match="maxEventsPerTrigger is for streams"):
        RouteOptions.read(most, is_stream=False)
    assert RouteOptions.read(ending, is_stream=False).ending == 8
    assert RouteOptions.read(most, is_stream=True).max_events_per_trigger == 8
