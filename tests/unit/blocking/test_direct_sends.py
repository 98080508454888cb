"""Usual sends of the blocking producer go over connections that its callers' threads read themselves."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apogeemq import client as asynchronous
from apogeemq.blocking import ClientOptions, Message, MessageQueue, Producer, ProducerOptions, SendResult, SendStatus
from apogeemq.blocking.background import background_loop
from apogeemq.client.producing.direct_sends import DirectSends
from apogeemq.errors import ApogeeError, MessageIllegal, NoRoute, WrongState
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.direct.exchange import Exchange
from tests.unit.blocking.interrupting import interrupted
from tests.unit.blocking.programs import Ended, run_program
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.client.producing.tampering import refuse_sends
from tests.unit.client.producing.test_sending import say_go_away
from tests.unit.event_loop import in_loop
from tests.unit.transport.direct.scripted_peer import peer, request, until_closed

PATIENT = ProducerOptions(send_timeout_seconds=3600)


def direct(producer: Producer) -> DirectSends:
    assert producer._direct is not None
    return producer._direct


def connections(producer: Producer) -> list[Exchange]:
    """Those that threads have of their own."""
    return [connection for lane in direct(producer)._lanes for connection in lane.connections.values()]


def broker_address(producer: Producer) -> str:
    instance = producer._producer._instance
    assert instance is not None
    return str(instance.master_of("broker-a"))


# -- the usual case ------------------------------------------------------------------------------------------


def test_the_second_send_goes_over_a_connection_of_its_own(address: str) -> None:
    with Producer(address, group="direct") as producer:
        producer.send("direct", b"finds the route")
        assert connections(producer) == []
        results = [producer.send("direct", b"%d" % number, tags="t", keys=["k"]) for number in range(8)]
        (connection,) = connections(producer)
        assert connection.next_opaque() == 9  # after eight requests
        assert {result.status for result in results} == {SendStatus.SEND_OK}
        assert Counter(result.queue.queue_id for result in results) == dict.fromkeys(range(4), 2)
        assert {result.queue.topic for result in results} == {"direct"}
        assert len({result.message_id for result in results}) == 8
        assert all(result.offset_id for result in results)


def test_what_was_sent_is_what_is_stored(address: str) -> None:
    with Producer(address, group="stored") as producer:
        producer.send("stored", b"finds the route")
        for body in (b"small", b"compressed" * 1000, bytes(range(256)) * 8192):
            result = producer.send("stored", body, tags="t", keys=["k"], properties={"p": "v"})
            stored = producer.view_message("stored", result.offset_id)
            assert stored is not None
            assert (stored.body, stored.tags, stored.message_id) == (body, "t", result.message_id)
            assert stored.properties["p"] == "v"
        assert len(connections(producer)) == 1


def test_many_threads(address: str) -> None:
    """More than have a way of their own; each message has an id of its own."""
    with Producer(address, group="many") as producer, ThreadPoolExecutor(24) as threads:
        producer.send("many", b"finds the route")
        is_time = threading.Barrier(24)

        def send(number: int) -> list[SendResult]:
            is_time.wait()
            return [producer.send("many", b"%d" % number) for _ in range(10)]

        results = [result for some in threads.map(send, range(24)) for result in some]
        assert len({result.message_id for result in results}) == 240
        assert len({(result.queue, result.queue_offset) for result in results}) == 240
        assert 1 <= len(connections(producer)) <= 24
        assert len(direct(producer)._free) == len(direct(producer)._lanes)  # none is lost


def test_without_a_way_of_its_own_a_thread_sends_through_the_loop(address: str) -> None:
    with Producer(address, group="crowd") as producer:
        producer.send("crowd", b"finds the route")
        taken = []
        while (lane := direct(producer)._taken()) is not None:
            taken.append(lane)
        assert len(taken) == 16
        assert producer.send("crowd", b"x").status is SendStatus.SEND_OK
        assert connections(producer) == []
        direct(producer)._free.extend(taken)
        assert producer.send("crowd", b"x").status is SendStatus.SEND_OK
        assert len(connections(producer)) == 1


# -- where it is not for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "client"),
    [
        (ProducerOptions(joins_sends=True), ClientOptions()),
        (ProducerOptions(avoids_slow_brokers=True), ClientOptions()),
        (ProducerOptions(detects_brokers=True), ClientOptions()),
        (ProducerOptions(), ClientOptions(namespace="tenant")),
        (ProducerOptions(), ClientOptions(access_key="someone", secret_key="secret")),
    ],
    ids=["joined", "measured", "detected", "namespace", "signed"],
)
def test_options_under_which_all_sends_are_the_loops(
    address: str, options: ProducerOptions, client: ClientOptions
) -> None:
    with Producer(address, group="not-direct", options=options, client=client) as producer:
        assert producer._direct is None
        for _ in range(2):
            assert producer.send("not-direct", b"x").status is SendStatus.SEND_OK


@pytest.mark.parametrize(
    "client", [ClientOptions(uses_vip_channel=True), ClientOptions(tls={"tls.enable": "true"})], ids=["vip", "tls"]
)
def test_other_connections_than_plain_ones(address: str, client: ClientOptions) -> None:
    with Producer(address, group="not-plain", client=client) as producer:
        assert producer._direct is None


def test_keys_of_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APOGEE_ACCESS_KEY", "someone")
    monkeypatch.setenv("APOGEE_SECRET_KEY", "secret")
    with Producer(address, group="keys", client=ClientOptions(instance_name="keys")) as producer:
        assert producer._direct is None


def test_sends_that_ask_for_something_else(address: str) -> None:
    with Producer(address, group="else") as producer:
        producer.send("else", b"finds the route")
        queue = producer.queues("else")[1]
        assert producer.send("else", b"x", queue=queue).queue == queue
        assert producer.send("else", b"x", queue=lambda queues, message: queues[2]).queue.queue_id == 2
        assert producer.send("else", b"x", timeout_seconds=60).status is SendStatus.SEND_OK
        kept = {producer.send("else", b"x", sharding_key="k").queue for _ in range(4)}
        assert len(kept) == 1
        assert connections(producer) == []


def test_an_illegal_message_is_not_sent(address: str) -> None:
    with Producer(address, group="illegal") as producer:
        producer.send("illegal", b"finds the route")
        for wrong in (Message("illegal", b""), Message("illegal", b"x", properties={"TAGS": "t"})):
            with pytest.raises(MessageIllegal):
                producer.send(wrong)
        assert connections(producer) == []
        assert producer.send("illegal", b"x").status is SendStatus.SEND_OK


def test_a_function_that_chooses_a_queue_must_not_send(address: str) -> None:
    with Producer(address, group="choosing") as producer:
        producer.send("choosing", b"finds the route")

        def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            return producer.send("choosing", b"x").queue

        with pytest.raises(WrongState, match="wait for itself"):
            producer.send("choosing", b"x", queue=choose)
        assert connections(producer) == []


# -- life ----------------------------------------------------------------------------------------------------


def test_no_connection_is_left_after_the_end(address: str) -> None:
    with Producer(address, group="ended") as producer, ThreadPoolExecutor(4) as threads:
        producer.send("ended", b"finds the route")
        is_time = threading.Barrier(4)

        def send(_: int) -> None:
            is_time.wait()
            producer.send("ended", b"x")

        list(threads.map(send, range(4)))
        left = connections(producer)
        assert left
    assert {connection.descriptor() for connection in left} == {-1}
    with pytest.raises(WrongState, match="not running"):
        producer.send("ended", b"x")
    assert direct(producer).send(Message("ended", b"x")) is None
    assert connections(producer) == []


def test_an_end_that_comes_while_lanes_are_taken(address: str) -> None:
    """Its own thread closes what it has."""
    with Producer(address, group="taken") as producer:
        for _ in range(2):
            producer.send("taken", b"x")
        (connection,) = connections(producer)
        lane = direct(producer)._taken()
        assert lane is not None
        direct(producer).close()
        assert connection.descriptor() >= 0
        direct(producer)._free.append(lane)
        direct(producer).close()
        assert connection.descriptor() == -1


def answered(connection: socket.socket, command: Command) -> None:
    """As by a broker that has stored it."""
    fields = {"msgId": "0" * 32, "queueId": command.fields()["e"], "queueOffset": "77"}
    connection.sendall(encode_reply(command, fields=fields))


def test_a_send_on_its_way_outlives_the_producer(address: str) -> None:
    mapped: dict[str, str] = {}
    client = ClientOptions(instance_name="outlives", address_map=mapped)
    producer = Producer(address, group="outlives", options=PATIENT, client=client)
    is_asked, is_stopped = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        command = request(connection)
        is_asked.set()
        is_stopped.wait()
        answered(connection, command)
        until_closed(connection)

    with ThreadPoolExecutor(1) as threads, producer:
        producer.send("outlives", b"finds the route")
        with peer(serve) as stand_in:
            mapped[broker_address(producer)] = stand_in
            sending = threads.submit(producer.send, "outlives", b"x")
            is_asked.wait()
            mapped.clear()
            producer.stop()
            is_stopped.set()
            assert sending.result().queue_offset == 77
        assert connections(producer) == []


def test_an_interrupted_start_leaves_nobody_behind(address: str) -> None:
    producer = Producer(address, group="halfway", client=ClientOptions(instance_name="halfway"))

    def interrupt() -> None:
        raise KeyboardInterrupt

    producer._producer.direct_sends = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        producer.start()

    async def until_left() -> None:
        while producer._leaving is None:
            await asyncio.sleep(0)
        await producer._leaving

    background_loop().run(until_left)
    with Producer(address, group="halfway", client=ClientOptions(instance_name="halfway")) as again:
        assert again.send("halfway", b"x").status is SendStatus.SEND_OK


def test_an_interrupted_send_drops_its_connection(address: str) -> None:
    """The answer to it may come when nobody waits any more."""
    mapped: dict[str, str] = {}
    client = ClientOptions(instance_name="interrupted-directly", address_map=mapped)
    with Producer(address, group="interrupted-directly", options=PATIENT, client=client) as producer:
        producer.send("interrupted-directly", b"finds the route")
        with interrupted() as is_time:

            def serve(connection: socket.socket) -> None:
                request(connection)
                is_time.set()
                until_closed(connection)

            with peer(serve) as silent:
                mapped[broker_address(producer)] = silent
                producer.send("interrupted-directly", b"to nobody")
        assert connections(producer) == []
        mapped.clear()
        for _ in range(2):
            assert producer.send("interrupted-directly", b"after").status is SendStatus.SEND_OK
        assert len(connections(producer)) == 1
        assert len(direct(producer)._free) == 1


def test_a_forked_child_does_not_keep_the_sockets(address: str) -> None:
    ended = run_program(
        """
        def sockets():
            found = 0
            for name in os.listdir("/proc/self/fd"):
                try:
                    found += "socket:" in os.readlink(f"/proc/self/fd/{name}")
                except FileNotFoundError:  # the folder itself
                    pass
            return found

        with Producer(address, group="forked-directly") as producer:
            producer.send("forked-directly", b"1")
            before = sockets()
            producer.send("forked-directly", b"2")
            print(sockets() - before, flush=True)
            child = os.fork()
            if child == 0:
                print(sockets(), flush=True)
                try:
                    producer.send("forked-directly", b"no")
                except WrongState:
                    print("refused", flush=True)
                sys.exit(3)  # leaves the block of the parent's producer, too
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            print(producer.send("forked-directly", b"3").status.name, sockets() - before)
        """,
        address,
    )
    assert ended == Ended(0, "1\n0\nrefused\n3\nSEND_OK 1\n", "")


# -- what does not go well -----------------------------------------------------------------------------------


def test_a_connection_that_ended_while_nobody_looked_is_replaced(address: str) -> None:
    with Producer(address, group="stale", options=ProducerOptions(retries=0)) as producer:
        for _ in range(2):
            producer.send("stale", b"x")
        (connection,) = connections(producer)
        connection._socket.shutdown(socket.SHUT_RDWR)
        connection._used_at = float("-inf")
        assert producer.send("stale", b"x").status is SendStatus.SEND_OK  # the only attempt
        (other,) = connections(producer)
        assert other is not connection
        assert connection.descriptor() == -1


def test_a_connection_that_ended_a_moment_ago_costs_an_attempt(address: str) -> None:
    with Producer(address, group="lost") as producer:
        for _ in range(2):
            producer.send("lost", b"x")
        (connection,) = connections(producer)
        connection._used_at = float("inf")  # however long the machine stands still
        connection._socket.shutdown(socket.SHUT_RDWR)
        assert producer.send("lost", b"x").status is SendStatus.SEND_OK
        assert connections(producer) == []


def test_an_attempt_that_is_not_answered_in_its_time(address: str) -> None:
    """The next one is the loop's, under the same id; here the broker has come back by then."""
    mapped: dict[str, str] = {}
    client = ClientOptions(instance_name="unanswered", address_map=mapped)
    options = ProducerOptions(send_timeout_seconds=3600, attempt_timeout_seconds=0.05, retries=100)
    ids: list[str] = []

    def serve(connection: socket.socket) -> None:
        ids.append(request(connection).fields()["i"])
        mapped.clear()
        until_closed(connection)

    with Producer(address, group="unanswered", options=options, client=client) as producer:
        producer.send("unanswered", b"finds the route")
        with peer(serve) as silent:
            mapped[broker_address(producer)] = silent
            result = producer.send("unanswered", b"x")
        assert result.status is SendStatus.SEND_OK
        assert f"UNIQ_KEY\x01{result.message_id}\x02" in ids[0]
        assert connections(producer) == []


async def outcomes(it: Cluster, code: int, **fields: str) -> tuple[list[object], list[str]]:
    """What a blocking producer and one of asyncio say of a broker that answers so; and who tried there."""
    blocking, other = Producer(it.address, group="B"), asynchronous.Producer(it.address, group="A")
    await asyncio.to_thread(blocking.start)
    await asyncio.to_thread(blocking.send, "T", b"finds the route")
    async with other:
        await other.send("T", b"finds the route")
        tried = refuse_sends(it, "broker-a", code, "I do not like it", **fields)
        said: list[object] = []
        for sending in (asyncio.to_thread(blocking.send, "T", b"x"), other.send("T", b"x")):
            try:
                result = await sending
                said.append((result.status, result.queue, result.queue_offset))
            except ApogeeError as error:
                said.append((type(error), str(error), error.retriable))
    assert len(connections(blocking)) == (code != ResponseCode.GO_AWAY)
    await asyncio.to_thread(blocking.stop)
    return said, tried


@pytest.mark.parametrize(
    ("code", "attempts"),
    [
        (ResponseCode.MESSAGE_ILLEGAL, 1),
        (ResponseCode.NO_PERMISSION, 3),
        (ResponseCode.SYSTEM_BUSY, 3),
        (ResponseCode.FLUSH_DISK_TIMEOUT, 1),
    ],
)
@in_loop
async def test_answers_other_than_success_mean_what_they_mean_to_the_asyncio_client(
    tmp_path: Path, code: ResponseCode, attempts: int
) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        (directly, otherwise), tried = await outcomes(it, code, msgId="0" * 32, queueId="0", queueOffset="7")
        assert directly == otherwise
        assert len(tried) == 2 * attempts
        assert len(set(tried)) == 2  # every attempt under the id of the first


@in_loop
async def test_an_answer_that_does_not_say_where_it_went(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        (directly, otherwise), tried = await outcomes(it, ResponseCode.SUCCESS)
        assert directly == otherwise
        assert "without saying where it went" in str(directly)
        assert len(tried) == 2


@in_loop
async def test_a_topic_that_may_not_be_written_any_more(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        blocking = Producer(it.address, group="B")
        await asyncio.to_thread(blocking.start)
        for _ in range(2):
            await asyncio.to_thread(blocking.send, "T", b"x")
        await it.make_topic("T", 1, perm=4)
        routes = blocking._producer._running.routes
        await eventually(lambda: (route := routes.known("T")) is not None and route.queues["broker-a"].perm == 4)
        with pytest.raises(NoRoute, match="its brokers may not be written to"):
            await asyncio.to_thread(blocking.send, "T", b"x")
        await asyncio.to_thread(blocking.stop)


@in_loop
async def test_a_broker_that_goes_away_is_asked_over_a_new_connection(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        blocking = Producer(it.address, group="B")
        await asyncio.to_thread(blocking.start)
        await asyncio.to_thread(blocking.send, "T", b"finds the route")
        asked = say_go_away(it)
        result = await asyncio.to_thread(blocking.send, "T", b"x")
        assert result.queue_offset == 1
        assert connections(blocking) == []
        assert len(asked) == 2
        await asyncio.to_thread(blocking.send, "T", b"x")
        assert len(connections(blocking)) == 1
        assert it.state.store.queue("T", 0).max_offset == 3  # none was sent twice
        await asyncio.to_thread(blocking.stop)
