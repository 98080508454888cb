"""What brokers leave out of a read. Pure."""

from __future__ import annotations

import msgspec

from apogeemq.errors import BadExpression, ConfigError
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.subscriptions import EVERY_TAG
from apogeemq.spark.options import OptionReader, wrong


class MessageFilter(msgspec.Struct, frozen=True):
    """A tag expression or an SQL92 expression, never both. Travels to executors.

    Brokers compare hashes of tags: whoever reads compares the tags themselves.
    """

    tags: str = EVERY_TAG
    sql: str = ""

    @property
    def is_everything(self) -> bool:
        return self.tags == EVERY_TAG and not self.sql

    @classmethod
    def read(cls, options: OptionReader) -> MessageFilter:
        tags, sql = options.text("tags", EVERY_TAG), options.text("sql", "")
        if sql and options.has("tags"):
            raise ConfigError("options tags and sql exclude each other: brokers filter by one of them")
        try:
            subscription_of("topic", tags)
        except BadExpression as error:
            raise wrong("tags", tags, f"tags such as 'paid || shipped' ({error})") from None
        return cls(tags, sql)
