"""The client without `await`: the same classes, names and errors as `apogeemq.client`, for programs without asyncio.

The work is done in one background thread for the whole process. Threads may share clients. A forked child makes its
own clients.
"""

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
    from apogeemq.blocking.consumer import Consumer
    from apogeemq.blocking.lite_pull import LitePullConsumer
    from apogeemq.blocking.messages import ConsumedMessage
    from apogeemq.blocking.producer import Producer
    from apogeemq.blocking.pulling import PullConsumer

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
        "Consumer": "apogeemq.blocking.consumer",
        "LitePullConsumer": "apogeemq.blocking.lite_pull",
        "ConsumedMessage": "apogeemq.blocking.messages",
        "Producer": "apogeemq.blocking.producer",
        "PullConsumer": "apogeemq.blocking.pulling",
    },
)
