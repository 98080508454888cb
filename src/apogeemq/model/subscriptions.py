"""What a consumer wants of a topic, and the words consumers describe themselves with."""

from __future__ import annotations

from typing import Final

import msgspec

TAG: Final = "TAG"
SQL92: Final = "SQL92"
EVERY_TAG: Final = "*"

# In the order of Java's enums: some clients send the position instead of the word.
CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS: Final = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERE: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
CONSUME_ACTIVELY: Final = CONSUME_TYPES[0]
BROADCASTING: Final = MESSAGE_MODELS[0]


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """One topic of a consumer group. Fields in the order Apache writes them."""

    class_filter_mode: bool = False
    code_set: frozenset[int] = frozenset()  # Java hashes of the tags
    expression_type: str = TAG
    sub_string: str = EVERY_TAG
    sub_version: int = 0  # ms; of two subscriptions the larger one holds
    tags_set: frozenset[str] = frozenset()
    topic: str = ""

    @property
    def wanted_tags(self) -> frozenset[int] | None:
        """The tag hashes that pass; None when every message may."""
        if self.class_filter_mode or self.expression_type != TAG or self.sub_string == EVERY_TAG:
            return None
        return self.code_set
