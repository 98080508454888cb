"""A broker's side of the name server protocol: used by brokers, and by tools and tests that speak as one."""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from apogeemq.errors import RemoteRefused
from apogeemq.model.routes import DataVersion
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.registration import Registration, encode_registration
from apogeemq.protocol.bodies.routes import KvTable
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.transport.pool import ConnectionPool

_REQUEST_SECONDS: Final = 5.0
_CRC_MASK: Final = 0x7FFFFFFF  # Java's UtilAll.crc32 has no sign


class BrokerIdentity(msgspec.Struct, frozen=True):
    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""


class RegistrationAnswer(msgspec.Struct, frozen=True):
    """What a name server tells a broker: its master, if it is a slave, and the ordered topics' configuration."""

    master_address: str | None
    ha_address: str | None
    order_topics: dict[str, str]


class BrokerRegistration:
    """One broker at one name server. A name server forgets a broker when its connection ends, so brokers that are
    to leave on their own have pools of their own."""

    def __init__(
        self, pool: ConnectionPool, address: str, broker: BrokerIdentity, timeout_seconds: float = _REQUEST_SECONDS
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self._pool = pool
        self._address = address
        self._broker = broker
        self._names = headers.BrokerIdentity(broker.name, broker.address, broker.cluster, broker.broker_id)

    async def register(self, registration: Registration, *, acting_master: bool = False) -> RegistrationAnswer:
        return await self.register_body(encode_registration(registration), acting_master=acting_master)

    async def register_body(
        self,
        body: bytes,
        *,
        is_compressed: bool = False,
        acting_master: bool = False,
        heartbeat_timeout_ms: int | None = None,
    ) -> RegistrationAnswer:
        """Register with a body that is encoded already."""
        broker = self._broker
        header = headers.RegisterBroker(
            broker.name,
            broker.address,
            broker.cluster,
            broker.broker_id,
            haServerAddr=broker.ha_address,
            heartbeatTimeoutMillis=heartbeat_timeout_ms,
            enableActingMaster=acting_master,
            compressed=is_compressed,
            bodyCrc32=zlib.crc32(body) & _CRC_MASK,
        )
        answer = await self._ask(RequestCode.REGISTER_BROKER, header, body)
        fields = answer.fields()
        order_topics = javajson.loads(answer.body, KvTable).table if answer.body else {}
        return RegistrationAnswer(fields.get("masterAddr"), fields.get("haServerAddr"), order_topics)

    async def register_topic(self, topic: str, body: bytes) -> None:
        """Tell of one topic alone; `body` is a route that names this broker's queues."""
        await self._ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, headers.TopicOnly(topic), body)

    async def unregister(self) -> None:
        await self._ask(RequestCode.UNREGISTER_BROKER, self._names)

    async def is_changed(self, data_version: DataVersion) -> bool:
        """Whether the name server knows another version of this broker's topics; counts as a sign of life."""
        body = msgspec.json.encode(data_version)
        answer = await self._ask(RequestCode.QUERY_DATA_VERSION, self._names, body)
        return answer.fields().get("changed") == "true"

    async def heartbeat(self) -> None:
        await self._ask(RequestCode.BROKER_HEARTBEAT, self._heartbeat_header())

    async def send_sign_of_life(self, data_version: DataVersion, *, as_before_5: bool, timeout_seconds: float) -> None:
        """One-way. Name servers before 5.0 know the question for the data version, but not the heartbeat."""
        code, header, body = RequestCode.BROKER_HEARTBEAT, self._heartbeat_header(), b""
        if as_before_5:
            code, body = RequestCode.QUERY_DATA_VERSION, msgspec.json.encode(data_version)
        fields = write_fields(self._names if as_before_5 else header)
        await self._pool.one_way(self._address, code, fields, body, timeout_seconds=timeout_seconds)

    def _heartbeat_header(self) -> headers.BrokerHeartbeat:
        broker = self._broker
        return headers.BrokerHeartbeat(broker.cluster, broker.address, broker.name)

    async def _ask(self, code: RequestCode, header: msgspec.Struct, body: bytes = b"") -> Command:
        answer = await self._pool.request(
            self._address, code, write_fields(header), body, timeout_seconds=self.timeout_seconds
        )
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._address)
        return answer
