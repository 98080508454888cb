"""The blocking producer with a broker of ours."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from apogeemq.blocking import ClientOptions, Message, MessageQueue, Producer, ProducerOptions, SendResult, SendStatus
from apogeemq.blocking.background import background_loop
from apogeemq.errors import ConfigError, MessageIllegal, WrongState
from tests.unit.blocking.interrupting import interrupted
from tests.unit.broker.registering import free_address


def test_each_way_to_send(address: str) -> None:
    with Producer(address, group="each") as producer:
        assert producer.group == "each"
        assert producer.options == ProducerOptions()
        first = producer.send("each", b"1", tags="t", keys=["k"], properties={"p": "v"})
        assert first.status is SendStatus.SEND_OK
        queues = producer.queues("each")
        assert first.queue in queues
        assert producer.send("each", b"2", queue=queues[0]).queue == queues[0]
        assert producer.send_batch([Message("each", b"3"), Message("each", b"4")]).status is SendStatus.SEND_OK
        assert producer.send_soon(Message("each", b"5")).result().status is SendStatus.SEND_OK
        producer.send_one_way(Message("each", b"6"))


def test_flush_waits_for_all(address: str) -> None:
    with Producer(address, group="flushed", options=ProducerOptions(linger_seconds=30)) as producer:
        sending = [producer.send_soon(Message("flushed", b"%d" % number)) for number in range(100)]
        assert not any(one.done() for one in sending)  # they wait for company
        producer.flush()
        assert {one.result().status for one in sending} == {SendStatus.SEND_OK}


def test_what_is_on_its_way_cannot_be_called_back(address: str) -> None:
    with Producer(address, group="back", options=ProducerOptions(linger_seconds=30)) as producer:
        sending = producer.send_soon(Message("back", b"x"))
        assert not sending.cancel()
    assert sending.result().status is SendStatus.SEND_OK  # leaving waits for it


def test_errors_are_those_of_the_asyncio_client(address: str) -> None:
    with pytest.raises(ConfigError):
        Producer(address, group="not a group")
    producer = Producer(address, group="errors")
    with pytest.raises(WrongState, match="not running"):
        producer.send("errors", b"x")
    with producer:
        with pytest.raises(WrongState, match="already"):
            producer.start()
        with pytest.raises(WrongState, match="in use"):
            Producer(address, group="errors").start()
        with pytest.raises(MessageIllegal):
            producer.send("not a topic", b"x")
        with pytest.raises(MessageIllegal):
            producer.send_soon(Message("not a topic", b"x"))
    with pytest.raises(WrongState, match="ended"):
        producer.start()
    producer.stop()


def test_threads_share_a_producer(address: str) -> None:
    results: list[SendResult] = []

    def send(producer: Producer, name: str) -> None:
        for number in range(10):
            results.append(producer.send("shared", f"{name} {number}".encode()))

    with Producer(address, group="shared") as producer:
        threads = [threading.Thread(target=send, args=(producer, f"thread {number}")) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({result.message_id for result in results}) == 50


def test_producers_of_a_process_share_their_connections(address: str) -> None:
    with Producer(address, group="one") as one, Producer(address, group="two") as two:
        assert one._producer._instance is two._producer._instance is not None


def test_a_function_that_chooses_a_queue_must_not_call(address: str) -> None:
    with Producer(address, group="chooser") as producer:
        producer.send("chooser", b"x")

        def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            return producer.queues("chooser")[0]

        with pytest.raises(WrongState, match="wait for itself"):
            producer.send("chooser", b"x", queue=choose)
        assert producer.send("chooser", b"x", queue=lambda queues, message: queues[-1]).queue.queue_id == 3


def test_an_interrupted_send_leaves_a_producer_that_works(address: str) -> None:
    """It is interrupted while a broker that takes connections, and nothing else, does not answer."""
    mapped: dict[str, str] = {}
    client = ClientOptions(instance_name="interrupted", address_map=mapped)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Producer(address, group="interrupted", client=client) as producer,
    ):
        producer.send("interrupted", b"before")
        instance = producer._producer._instance
        assert instance is not None
        broker = str(instance.master_of("broker-a"))
        mapped[broker] = f"127.0.0.1:{silent.getsockname()[1]}"
        with interrupted() as is_time:
            threading.Thread(target=_set_when_connected, args=(silent, is_time)).start()
            producer.send("interrupted", b"to nobody", timeout_seconds=3600)
        mapped.clear()
        assert producer.send("interrupted", b"after").status is SendStatus.SEND_OK


def _set_when_connected(listening: socket.socket, event: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection:
        event.set()
        connection.recv(1 << 16)
        connection.recv(1 << 16)  # until the other end closes


def test_an_interrupted_wait_for_room_sends_nothing(address: str) -> None:
    options = ProducerOptions(linger_seconds=3600, max_in_flight=1)
    producer = Producer(address, group="window", options=options, client=ClientOptions(instance_name="window"))
    producer._outbox._room = threading.Semaphore(1)
    sending: list[Future[SendResult]] = []
    with producer:
        sending.append(producer.send_soon(Message("window", b"in the window")))
        background_loop().run(lambda: asyncio.sleep(0))  # there now
        sending.append(producer.send_soon(Message("window", b"waits for room there")))
        with interrupted() as is_time:
            background_loop().begin(lambda: _set(is_time))
            sending.append(producer.send_soon(Message("window", b"waits for room here")))
        assert len(sending) == 2
    assert [one.result().status for one in sending] == [SendStatus.SEND_OK] * 2
    assert sending[1].result().queue_offset <= 1


async def _set(event: threading.Event) -> None:
    event.set()


def test_nobody_is_there() -> None:
    with (
        Producer(free_address(), group="nobody", options=ProducerOptions(send_timeout_seconds=0.2)) as producer,
        pytest.raises(Exception, match=r"name server|route"),
    ):
        producer.send("nobody", b"x")
