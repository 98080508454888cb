"""Calls the name server makes itself: notices to brokers, questions to the product environment's name servers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from apogeemq.errors import ApogeeError
from apogeemq.model.routes import TopicRoute
from apogeemq.nameserver.changes import MinIdNotice
from apogeemq.nameserver.config import NameServerConfig
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.nameserver import NotifyMinBrokerIdChange
from apogeemq.transport.discovery import find_source
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool

log = logging.getLogger(__name__)

_NOTICE_SECONDS = 0.3
_PRODUCT_SECONDS = 3.0


class Outward:
    """Imported and made only when it is needed. A call that fails is logged; nobody waits for it in vain."""

    def __init__(self, config: NameServerConfig, environment: Mapping[str, str]) -> None:
        self._pool = ConnectionPool()
        self._product: NameServerClient | None = None
        if config.cluster_test:
            source = find_source(config.product_namesrv_addr, environment, config.product_env_name)
            self._product = NameServerClient(self._pool, source)

    async def notify(self, notice: MinIdNotice) -> None:
        """Tell brokers that the lowest id of their group is another one now."""
        header = NotifyMinBrokerIdChange(
            minBrokerId=notice.min_broker_id,
            minBrokerAddr=notice.min_broker_address,
            offlineBrokerAddr=notice.offline_address,
            haBrokerAddr=notice.ha_address,
        )
        for address in notice.targets:
            try:
                await self._pool.one_way(
                    address,
                    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
                    write_fields(header),
                    timeout_seconds=_NOTICE_SECONDS,
                )
            except ApogeeError as error:
                log.warning("broker %s was not told of its group's new lowest id: %s", address, error)

    async def ask_product(self, topic: str) -> TopicRoute | None:
        """The product environment's route, if it has one and can be reached."""
        assert self._product is not None  # cluster-test mode made it
        try:
            answer = await self._product.request(
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                {"topic": topic, "acceptStandardJsonOnly": "true"},
                timeout_seconds=_PRODUCT_SECONDS,
            )
            return decode_route(answer.body) if answer.code == ResponseCode.SUCCESS else None
        except ApogeeError as error:
            log.warning("the product environment did not give a route of %s: %s", topic, error)
            return None

    def tick(self) -> None:
        self._pool.tick()
        if self._product is not None:
            self._product.tick()

    async def close(self) -> None:
        if self._product is not None:
            await self._product.close()
        await self._pool.close()
