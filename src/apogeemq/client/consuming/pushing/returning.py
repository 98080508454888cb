"""What becomes of a message the program could not deal with: back to its broker, to come again after a while."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Final

from apogeemq.client.instance import ClientInstance
from apogeemq.client.namespaces import with_namespace
from apogeemq.client.route_info import publish_info
from apogeemq.errors import ApogeeError, NoRoute
from apogeemq.model import properties as names
from apogeemq.model.flags import COMPRESSED
from apogeemq.model.properties import encode_properties
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.topics import AUTO_CREATE_TOPIC, retry_topic
from apogeemq.protocol.compression import FLAGS, ZLIB, compress
from apogeemq.protocol.headers.broker import SendBack, SendMessage
from apogeemq.runtime.clock import now_ms

log = logging.getLogger(__name__)

INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
LOGICAL_BROKER_PREFIX: Final = "__syslo__"  # the queues of a static topic; no broker has that name
_DEFAULT_MOST: Final = 16
_NO_LIMIT: Final = 2**31 - 1
_FIRST_LEVEL: Final = 3  # of delay: 10 s
_ATTEMPTS: Final = 3
_SEND_SECONDS: Final = 3.0
_COMPRESS_ABOVE: Final = 4096
_QUEUES_OF_A_NEW_TOPIC: Final = 4


class Returns:
    """Of one group. `most` is how often a message may come again before it is a dead letter; -1: as Apache's
    clients, 16 times, and in ordered groups without end."""

    def __init__(self, instance: ClientInstance, group: str, most: int, *, is_ordered: bool) -> None:
        self._instance = instance
        self._group = group
        self.most = most if most >= 0 else (_NO_LIMIT if is_ordered else _DEFAULT_MOST)

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """The broker has the message still and needs only be told which; one that cannot be told is sent it anew,
        or another broker is. False when neither could be done."""
        if not message.queue.broker_name.startswith(LOGICAL_BROKER_PREFIX):
            try:
                await self.tell_broker(message, delay_level)
                return True
            except ApogeeError as error:
                log.warning("%r could not be sent back and is sent anew: %s", message, error)
        return await self.send_anew(message)

    async def tell_broker(self, message: ReceivedMessage, delay_level: int) -> None:
        """Raises an ApogeeError."""
        instance = self._instance
        address = instance.master_of(message.queue.broker_name)
        if address is None:
            raise NoRoute(f"the broker {message.queue.broker_name} has no master that is known")
        header = SendBack(
            message.physical_offset,
            self._group,
            delay_level,
            originMsgId=message.message_id,
            originTopic=self._topic_of(message),
            maxReconsumeTimes=self.most,
            bname=message.queue.broker_name,
        )
        await instance.calls.send_back(address, header)

    async def send_anew(self, message: ReceivedMessage) -> bool:
        """As a message to the group's retry topic: also the way of ordered messages that failed too often, which
        brokers then put with the dead letters."""
        topic = retry_topic(self._group)
        try:
            route = await self._instance.routes.get(topic)
            queues = publish_info(topic, route).queues
            if not queues:
                raise NoRoute(f"no queue of {topic} can be sent to")
            await self._send(queues, self._as_new(message, topic), message.body)
        except ApogeeError as error:
            log.warning("%r could not be sent to %s and is tried here again: %s", message, topic, error)
            return False
        return True

    async def _send(self, queues: Sequence[MessageQueue], header: SendMessage, body: bytes) -> None:
        avoided = ""
        for attempt in range(_ATTEMPTS):
            queue = random.choice([queue for queue in queues if queue.broker_name != avoided] or queues)
            address = self._instance.master_of(queue.broker_name)
            if address is None:
                avoided = queue.broker_name
                continue
            header.queue_id, header.broker_name = queue.queue_id, queue.broker_name
            if len(body) >= _COMPRESS_ABOVE and not header.system_flag:
                body, header.system_flag = compress(body, ZLIB), COMPRESSED | FLAGS[ZLIB]
            try:
                await self._instance.calls.send(address, header, body, _SEND_SECONDS)
                return
            except ApogeeError as error:
                if not error.retriable or attempt == _ATTEMPTS - 1:
                    raise
                avoided = queue.broker_name
        raise NoRoute(f"no broker of {header.topic} has a master that is known")

    def _as_new(self, message: ReceivedMessage, topic: str) -> SendMessage:
        properties = {
            **message.properties,
            names.ORIGIN_MESSAGE_ID: message.properties.get(names.ORIGIN_MESSAGE_ID) or message.message_id,
            names.RETRY_TOPIC: self._topic_of(message),
            names.DELAY: str(_FIRST_LEVEL + message.reconsume_times),
        }
        properties.pop(names.TRANSACTION_PREPARED, None)
        return SendMessage(
            topic=topic,
            queue_id=-1,
            system_flag=0,
            born_time=now_ms(),
            flag=message.flag,
            producer_group=INNER_PRODUCER_GROUP,
            default_topic=AUTO_CREATE_TOPIC,
            default_queue_nums=_QUEUES_OF_A_NEW_TOPIC,
            properties=encode_properties(properties),
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=self.most,
        )

    def _topic_of(self, message: ReceivedMessage) -> str:
        """As brokers know it."""
        return with_namespace(message.topic, self._instance.options.namespace)


class BroadcastReturns:
    """A broadcasting group has no retries: what failed is gone, or tried here for ever where the order counts."""

    def __init__(self, instance: ClientInstance, group: str, most: int, *, is_ordered: bool) -> None:
        self.most = most if most >= 0 else (_NO_LIMIT if is_ordered else 0)

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        log.warning("%r failed; a broadcasting group has no retries", message)
        return True

    async def send_anew(self, message: ReceivedMessage) -> bool:
        return await self.send_back(message, 0)
