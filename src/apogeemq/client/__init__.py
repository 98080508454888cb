"""The client: producers and consumers, asyncio first. The same without `await` is in `apogeemq.blocking`."""

from __future__ import annotations

from apogeemq.client.consuming.consumer import Consumer
from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from apogeemq.client.producing.producer import Producer
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue

__all__ = [
    "ClientOptions",
    "ConsumedMessage",
    "Consumer",
    "ConsumerOptions",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerOptions",
    "SendResult",
    "SendStatus",
]
