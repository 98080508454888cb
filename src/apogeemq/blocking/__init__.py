"""The client without `await`: the same classes, names and errors as `apogeemq.client`, for programs without asyncio.

The work is done in one background thread for the whole process. Threads may share clients. A forked child makes its
own clients.
"""

from __future__ import annotations

from apogeemq.blocking.consumer import Consumer
from apogeemq.blocking.lite_pull import LitePullConsumer
from apogeemq.blocking.messages import ConsumedMessage
from apogeemq.blocking.producer import Producer
from apogeemq.blocking.pulling import PullConsumer
from apogeemq.client.consuming.pulling.pull_result import PullResult, PullStatus, RawPullResult
from apogeemq.client.consuming.rebalance import Strategy, by_config
from apogeemq.client.options import ClientOptions, ConsumerOptions, LitePullOptions, ProducerOptions, PullOptions
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage

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
