"""From the properties a producer sent to those that are stored."""

from __future__ import annotations

import pytest

from apogeemq.broker.incoming import PropertyRules, tags_code
from apogeemq.filter.tags import java_hash
from apogeemq.model.delays import DelayLevels
from apogeemq.model.properties import decode_properties

RULES = PropertyRules("DefaultRegion", True, "DefaultCluster")
ADDED = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


def accept(text: str) -> str:
    _, encoded, _, _ = RULES.accept(text, lambda: "NEW")
    return encoded.decode()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02" + ADDED),
        ("a\x01b\x02UNIQ_KEY\x01U\x02", "a\x01b\x02UNIQ_KEY\x01U\x02" + ADDED),
        ("UNIQ_KEY\x01U", "UNIQ_KEY\x01U\x02" + ADDED),  # the last end may be missing
        ("a\x01b\x01c\x02UNIQ_KEY\x01U\x02", "a\x01b\x01c\x02UNIQ_KEY\x01U\x02" + ADDED),  # a value may hold \x01
        ("WAIT\x01false\x02UNIQ_KEY\x01U\x02", "WAIT\x01false\x02UNIQ_KEY\x01U\x02" + ADDED),
        ("a\0b\x01c\x02UNIQ_KEY\x01U\x02", "a\0b\x01c\x02UNIQ_KEY\x01U\x02" + ADDED),
        ("€\x01😀\x02UNIQ_KEY\x01U\x02", "€\x01😀\x02UNIQ_KEY\x01U\x02" + ADDED),
        # what says nothing is dropped: no name, no value, no separator
        ("\x01b\x02a\x01\x02ab\x02\x02UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02" + ADDED),
        # of a name that comes twice the last counts
        ("a\x011\x02UNIQ_KEY\x01U\x02a\x012\x02", "a\x012\x02UNIQ_KEY\x01U\x02" + ADDED),
        ("UNIQ_KEY\x01U\x02UNIQ_KEY\x01V\x02", "UNIQ_KEY\x01V\x02" + ADDED),
        # what is the broker's to say
        ("POP_CK\x01x\x02UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02" + ADDED),
        ("", "UNIQ_KEY\x01NEW\x02" + ADDED),
        ("a\x01b\x02", "a\x01b\x02UNIQ_KEY\x01NEW\x02" + ADDED),
        ("\x02\x02\x02", "UNIQ_KEY\x01NEW\x02" + ADDED),
        ("\x01\x01\x01", "UNIQ_KEY\x01NEW\x02" + ADDED),
        ("no separators at all", "UNIQ_KEY\x01NEW\x02" + ADDED),
    ],
)
def test_what_is_kept_of_what_was_sent(sent: str, kept: str) -> None:
    assert accept(sent) == kept


@pytest.mark.parametrize("name", ["MSG_REGION", "TRACE_ON", "CLUSTER"])
def test_nobody_speaks_for_the_broker(name: str) -> None:
    sent = f"{name}\x01forged\x02UNIQ_KEY\x01U\x02"
    kept = decode_properties(accept(sent))
    assert kept == {"UNIQ_KEY": "U", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    assert accept(sent).count(f"{name}\x01") == 1


def test_the_unique_key_is_the_producers_or_a_new_one() -> None:
    assert RULES.accept("UNIQ_KEY\x01U\x02", lambda: "NEW")[2] == "U"
    assert RULES.accept("a\x01b\x02", lambda: "NEW")[2] == "NEW"


def test_what_is_given_is_what_is_stored_as_far_as_the_producer_said_it() -> None:
    properties, encoded, _, _ = RULES.accept("TAGS\x01A\x02KEYS\x01k\x02", lambda: "NEW")
    stored = decode_properties(encoded.decode())
    assert properties.items() <= stored.items()
    assert {"TAGS": "A", "KEYS": "k"}.items() <= properties.items()


def test_tags_code_is_the_hash_of_the_tag_or_the_time_a_delayed_message_is_due() -> None:
    delays = DelayLevels("1s 5s")
    assert tags_code("T", {"TAGS": "A"}, 100, delays) == java_hash("A") == 65
    assert tags_code("T", {}, 100, delays) == 0
    assert tags_code("T", {"DELAY": "2", "TAGS": "A"}, 100, delays) == 65
    assert tags_code("SCHEDULE_TOPIC_XXXX", {"DELAY": "2", "TAGS": "A"}, 100, delays) == 5100
    assert tags_code("SCHEDULE_TOPIC_XXXX", {"DELAY": "9"}, 100, delays) == 5100
    assert tags_code("SCHEDULE_TOPIC_XXXX", {"TAGS": "A"}, 100, delays) == 65


@pytest.mark.parametrize(
    ("sent", "is_usual"),
    [
        ("UNIQ_KEY\x01U\x02", True),
        ("", True),
        ("POP_CK\x01x\x02UNIQ_KEY\x01U\x02", True),
        ("DELAY\x013\x02UNIQ_KEY\x01U\x02", False),
        ("DELAY\x013\x02", False),
        ("TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02", False),
        ("TIMER_DELAY_MS\x0110\x02UNIQ_KEY\x01U\x02", False),
    ],
)
def test_what_asks_for_more_than_storing_is_told_apart(sent: str, is_usual: bool) -> None:
    assert RULES.accept(sent, lambda: "NEW")[3] is is_usual
