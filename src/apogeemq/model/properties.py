"""Message properties: names the system knows, and the text they travel in.

Each property is `name \\x01 value \\x02`, one after the other. Reading follows Apache's: an entry without a name or
without a value is dropped, and the last separator may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
MAX_SIZE: Final = 32_767  # bytes; the record's length field is an int16

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
UNIQUE_KEY: Final = "UNIQ_KEY"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
POP_CHECK_POINT: Final = "POP_CK"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
SHARDING_KEY: Final = "__SHARDINGKEY"
INSTANCE_ID: Final = "INSTANCE_ID"  # the namespace of its producer
TRANSACTION_PREPARED: Final = "TRAN_MSG"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SECONDS: Final = "TIMER_DELAY_SEC"
TIMER_PROPERTIES: Final = frozenset((TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SECONDS))

KEY_SEPARATOR: Final = " "


def encode_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def decode_properties(text: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for entry in text.split(VALUE_END):
        name, separator, value = entry.partition(NAME_END)
        if name and separator and value:
            properties[name] = value
    return properties
