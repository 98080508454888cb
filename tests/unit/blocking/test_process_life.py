"""Blocking clients through the life of a process: forks, Ctrl-C, and an end nobody prepared."""

from __future__ import annotations

import signal

from tests.unit.blocking.programs import Ended, program, run_program


def test_a_forked_child_makes_its_own_clients(address: str) -> None:
    ended = run_program(
        """
        producer = Producer(address, group="forked")
        unused = Producer(address, group="unused")
        with producer:
            producer.send("forked", b"parent")
            child = os.fork()
            if child == 0:
                try:
                    producer.send("forked", b"no")
                except WrongState as error:
                    print(error, flush=True)
                with unused:
                    print(unused.send("forked", b"child").status.name, flush=True)
                with Producer(address, group="forked") as own:
                    print(own.send("forked", b"child").status.name, flush=True)
                sys.exit(3)  # leaves the block of the parent's producer, too
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(status, producer.send("forked", b"parent").status.name)
        """,
        address,
    )
    sentence = "forked was started before this process was forked; make a client of its own here"
    assert ended == Ended(0, f"{sentence}\nSEND_OK\nSEND_OK\n3 SEND_OK\n", "")


def test_children_of_multiprocessing_and_of_children(address: str) -> None:
    ended = run_program(
        """
        import multiprocessing

        def send(depth):
            with Producer(address, group="pool") as own:
                own.send("pool", b"%d" % depth)
            if depth:
                child = multiprocessing.get_context("fork").Process(target=send, args=(depth - 1,))
                child.start()
                child.join()
                assert child.exitcode == 0

        with Producer(address, group="pool") as producer:
            producer.send("pool", b"first")
            send_in = multiprocessing.get_context("fork").Process(target=send, args=(2,))
            send_in.start()
            send_in.join()
            print(send_in.exitcode, producer.send("pool", b"last").status.name)
        """,
        address,
    )
    assert ended == Ended(0, "0 SEND_OK\n", "")


def test_a_child_does_not_keep_its_parents_connections(address: str) -> None:
    """It has no sockets, and its parent's clients work on."""
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

        with Consumer(address, group="sockets", topic="TBW102") as consumer:
            print(sockets() >= 2, flush=True)
            child = os.fork()
            if child == 0:
                print(sockets(), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            print(sockets() >= 2, len(consumer.publish_queues("TBW102")))
        """,
        address,
    )
    assert ended == Ended(0, "True\n0\nTrue 8\n", "")


def test_clients_nobody_stopped_are_stopped_at_the_end(address: str) -> None:
    """What was on its way is sent, what was acknowledged is kept."""
    ended = run_program(
        """
        producer = Producer(address, group="unstopped", options=ProducerOptions(linger_seconds=60))
        producer.start()
        sent = [producer.send_soon(Message("unstopped", b"%d" % number)) for number in range(10)]
        producer.flush()
        sending = producer.send_soon(Message("unstopped", b"waits for company"))
        consumer = Consumer(address, group="unstopped", topic="unstopped", options=FROM_FIRST)
        consumer.start()
        for number in range(10):
            next(consumer).ack()
        """,
        address,
    )
    assert ended == Ended(0, "", "")
    ended = run_program(
        """
        with Consumer(address, group="unstopped", topic="unstopped", options=FROM_FIRST) as consumer:
            print(next(consumer).body.decode())
        """,
        address,
    )
    assert ended == Ended(0, "waits for company\n", "")


def test_the_end_waits_neither_for_threads_that_wait_nor_for_handlers(address: str) -> None:
    ended = run_program(
        """
        def handle(message):
            begun.set()
            threading.Event().wait()

        begun = threading.Event()
        with Producer(address, group="never") as producer:
            producer.send("never", b"1")
        consumer = Consumer(address, group="never", topic="never", options=FROM_FIRST)
        consumer.start()
        consumer.on_message(handle)
        threading.Thread(target=consumer.run, daemon=True).start()
        begun.wait()
        other = Consumer(address, group="other", topic="never")
        other.start()
        threading.Thread(target=lambda: list(other), daemon=True).start()
        sys.exit(5)
        """,
        address,
    )
    assert (ended.status, ended.output) == (5, ""), ended.errors


def test_the_end_does_not_wait_for_servers_that_are_gone(address: str) -> None:
    ended = run_program(
        """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            producer = Producer(address, group="gone", options=ProducerOptions(send_timeout_seconds=3600))
            producer.start()
            producer.send_soon(Message("gone", b"1"))
            silent.accept()
        """,
        address,
    )
    assert ended.status == 0, ended.errors


def test_ctrl_c_ends_a_waiting_consumer(address: str) -> None:
    running = program(
        """
        with Producer(address, group="ctrl-c") as producer:
            producer.send("ctrl-c", b"1")
        with Consumer(address, group="ctrl-c", topic="ctrl-c", options=FROM_FIRST) as consumer:
            for message in consumer:
                message.ack()
                print(message.body.decode(), flush=True)
        """,
        address,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "1\n"
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate()
    assert (running.returncode, output) == (-signal.SIGINT, "")
    assert errors.splitlines()[-1] == "KeyboardInterrupt"


def test_ctrl_c_twice_ends_a_handler_that_does_not(address: str) -> None:
    running = program(
        """
        def handle(message):
            print(message.body.decode(), flush=True)
            threading.Event().wait()

        with Producer(address, group="twice") as producer:
            producer.send("twice", b"1")
        with Consumer(address, group="twice", topic="twice", options=FROM_FIRST) as consumer:
            consumer.on_message(handle)
            try:
                threading.Timer(0.2, lambda: (print("still", flush=True), os.kill(os.getpid(), signal.SIGINT))).start()
                consumer.run()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                os._exit(0)
        """,
        address,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "1\n"
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate()
    assert running.returncode == 0, errors
    assert output == "still\ninterrupted\n"


def test_interrupted_again_and_again_nothing_is_lost(address: str) -> None:
    """Wherever the interruptions come: what the program has not acknowledged is there for the next consumer."""
    ended = run_program(
        """
        def interrupt(number, frame):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        seen = set()
        bodies = {b"%d" % number for number in range(500)}
        with Producer(address, group="again") as producer:
            producer.send_batch([Message("again", body) for body in bodies])
        consumer = Consumer(address, group="again", topic="again", options=FROM_FIRST)
        consumer.start()
        for _ in range(50):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.002, 1)  # again, should Python itself swallow the first
                for message in consumer:
                    seen.add(message.body)
                    message.ack()
            except KeyboardInterrupt:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        consumer.stop()
        with Producer(address, group="again") as producer:
            producer.send("again", b"last", queue=lambda queues, message: queues[0])
        with Consumer(address, group="again", topic="again", options=FROM_FIRST) as consumer:
            while not bodies | {b"last"} <= seen:
                message = next(consumer)
                seen.add(message.body)
                message.ack()
        print(len(seen))
        """,
        address,
    )
    assert ended == Ended(0, "501\n", "")
