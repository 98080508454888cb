"""A broker's side of the name server protocol, spoken without being a broker: for demonstrations, tests and tools."""

from __future__ import annotations

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

_REQUEST_SECONDS = 5.0


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

    def __init__(self, pool: ConnectionPool, address: str, broker: BrokerIdentity) -> None:
        self._pool = pool
        self._address = address
        self._broker = broker
        self._names = headers.BrokerIdentity(broker.name, broker.address, broker.cluster, broker.broker_id)

    async def register(self, registration: Registration, *, acting_master: bool = False) -> RegistrationAnswer:
        broker = self._broker
        header = headers.RegisterBroker(
            broker.name,
            broker.address,
            broker.cluster,
            broker.broker_id,
            haServerAddr=broker.ha_address,
            enableActingMaster=acting_master,
        )
        answer = await self._ask(RequestCode.REGISTER_BROKER, header, encode_registration(registration))
        fields = answer.fields()
        order_topics = javajson.loads(answer.body, KvTable).table if answer.body else {}
        return RegistrationAnswer(fields.get("masterAddr"), fields.get("haServerAddr"), order_topics)

    async def unregister(self) -> None:
        await self._ask(RequestCode.UNREGISTER_BROKER, self._names)

    async def is_changed(self, data_version: DataVersion) -> bool:
        """Whether the name server knows another version of this broker's topics; counts as a sign of life."""
        body = msgspec.json.encode(data_version)
        answer = await self._ask(RequestCode.QUERY_DATA_VERSION, self._names, body)
        return answer.fields().get("changed") == "true"

    async def heartbeat(self) -> None:
        broker = self._broker
        header = headers.BrokerHeartbeat(broker.cluster, broker.address, broker.name)
        await self._ask(RequestCode.BROKER_HEARTBEAT, header)

    async def _ask(self, code: RequestCode, header: msgspec.Struct, body: bytes = b"") -> Command:
        answer = await self._pool.request(
            self._address, code, write_fields(header), body, timeout_seconds=_REQUEST_SECONDS
        )
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._address)
        return answer
