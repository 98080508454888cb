"""Makes a topic that a send created here on the other masters of the cluster, too.

Otherwise it would stay on the broker that happened to get the first message, for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.outward import Outward
from apogeemq.errors import ApogeeError, RemoteRefused
from apogeemq.model.topics import AUTO_CREATE_TOPIC, MASTER_ID, TopicConfig
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import WireClusterInfo, decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.admin import CreateTopic

log = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000  # topics; more are left where they are, and said so
ATTEMPTS: Final = 5
_FIRST_PAUSE_SECONDS: Final = 1.0  # doubled after each attempt


class TopicSpreading:
    """In the background and without a promise: a broker that cannot be reached is tried a few times and logged.

    Brokers that have the topic already keep theirs as it is.
    """

    def __init__(
        self, outward: Outward, config: Callable[[], BrokerConfig], first_pause_seconds: float = _FIRST_PAUSE_SECONDS
    ) -> None:
        self._outward = outward
        self._config = config
        self._first_pause_seconds = first_pause_seconds
        self._waiting: dict[str, TopicConfig] = {}
        self._task: asyncio.Task[None] | None = None

    def topic_created(self, topic: TopicConfig) -> None:
        """A send has made it here."""
        if not self._config().auto_create_topic_on_all_brokers:
            return
        if len(self._waiting) >= MAX_WAITING:
            log.warning("topic %s stays on this broker alone: %d others wait", topic.topic_name, MAX_WAITING)
            return
        self._waiting[topic.topic_name] = topic
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._spread_waiting())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _spread_waiting(self) -> None:
        try:
            while self._waiting:
                name = next(iter(self._waiting))
                await self._spread(self._waiting.pop(name))
        except Exception:
            log.exception("spreading topics failed")
        finally:
            self._task = None

    async def _spread(self, topic: TopicConfig) -> None:
        pause_seconds, done, problem = self._first_pause_seconds, set[str](), ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause_seconds)
                pause_seconds *= 2
            try:
                targets = await self._others_without(topic.topic_name)
            except ApogeeError as error:
                problem = str(error)
                continue
            problems = await asyncio.gather(
                *(self._create(topic, name, address, done) for name, address in targets.items() if name not in done)
            )
            problem = "; ".join(filter(None, problems))
            if not problem:
                return
        log.warning("topic %s is not on every broker of the cluster: %s", topic.topic_name, problem)

    async def _others_without(self, topic: str) -> dict[str, str]:
        """Name and address of the cluster's other masters that do not have the topic."""
        config = self._config()
        answer = await self._outward.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        _check(answer, "a name server")
        info = javajson.loads(answer.body, WireClusterInfo)
        others = [
            name for name in info.clusterAddrTable.get(config.broker_cluster_name, ()) if name in info.brokerAddrTable
        ]
        masters = {name: info.brokerAddrTable[name].brokerAddrs.get(MASTER_ID) for name in others}
        having = await self._brokers_with(topic)
        return {
            name: address
            for name, address in masters.items()
            if address is not None and name != config.broker_name and name not in having
        }

    async def _brokers_with(self, topic: str) -> set[str]:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self._outward.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        return set(decode_route(answer.body).queues) if answer.code == ResponseCode.SUCCESS else set()

    async def _create(self, topic: TopicConfig, name: str, address: str, done: set[str]) -> str:
        """Why it did not succeed; empty if it did."""
        header = CreateTopic(
            topic=topic.topic_name,
            defaultTopic=AUTO_CREATE_TOPIC,
            readQueueNums=topic.read_queue_nums,
            writeQueueNums=topic.write_queue_nums,
            perm=topic.perm,
            topicFilterType=topic.topic_filter_type,
            topicSysFlag=topic.topic_sys_flag,
            order=topic.order,
        )
        try:
            answer = await self._outward.pool.request(
                address,
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                write_fields(header),
                timeout_seconds=self._config().forward_timeout / 1000,
            )
            _check(answer, address)
        except ApogeeError as error:
            return f"{name}: {error}"
        done.add(name)
        log.info("topic %s is made on broker %s (%s), too", topic.topic_name, name, address)
        return ""


def _check(answer: Command, who: str) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteRefused(answer.code, answer.remark, who)
