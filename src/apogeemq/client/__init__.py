"""The client: producers and consumers, asyncio first. The same without `await` is in `apogeemq.blocking`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apogeemq.client.consuming.pulling.pull_result import PullResult, PullStatus, RawPullResult
from apogeemq.client.consuming.rebalance import Strategy, by_config
from apogeemq.client.options import ClientOptions, ConsumerOptions, LitePullOptions, ProducerOptions, PullOptions
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.runtime.lazy_names import names_on_demand

if TYPE_CHECKING:
    from apogeemq.client.consuming.consumer import Consumer
    from apogeemq.client.consuming.incoming import ConsumedMessage
    from apogeemq.client.consuming.pulling.lite_pull_consumer import LitePullConsumer
    from apogeemq.client.consuming.pulling.pull_consumer import PullConsumer
    from apogeemq.client.producing.producer import Producer

__all__ = [
    "ClientOptions",
    "ConsumedMessage",
    "Consumer",
    "ConsumerOptions",
    "LitePullConsumer",
    "LitePullOptions",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "PullOptions",
    "PullResult",
    "PullStatus",
    "RawPullResult",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "Strategy",
    "by_config",
]

__getattr__ = names_on_demand(
    __name__,
    {
        "Consumer": "apogeemq.client.consuming.consumer",
        "ConsumedMessage": "apogeemq.client.consuming.incoming",
        "LitePullConsumer": "apogeemq.client.consuming.pulling.lite_pull_consumer",
        "PullConsumer": "apogeemq.client.consuming.pulling.pull_consumer",
        "Producer": "apogeemq.client.producing.producer",
    },
)
