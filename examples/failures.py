"""What can go wrong with a send, and what to do then."""

import asyncio
import sys

from apogeemq.client import Producer, ProducerOptions
from apogeemq.errors import ApogeeError, ConfigError, MessageIllegal, NoNameServer, NoRoute, WrongState

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
NOBODY = "127.0.0.1:1"


async def main() -> None:
    try:
        Producer(NAME_SERVER, group="no spaces, please")
    except ConfigError as error:
        print("a setting is wrong:", error)

    async with Producer(NAME_SERVER, group="careful") as producer:
        try:
            await producer.send("careful", b"")
        except MessageIllegal as error:
            print("no broker would take it:", error)
        try:
            await Producer(NAME_SERVER, group="careful").start()
        except WrongState as error:
            print("used wrongly:", error)

    async with Producer(NOBODY, group="lonely", options=ProducerOptions(send_timeout_seconds=1)) as producer:
        try:
            await producer.send("lonely", b"hello?")
        except (NoNameServer, NoRoute) as error:
            print("nobody there; worth trying again:", error.retriable)
        except ApogeeError as error:  # the root of all of them
            print("anything else:", error)


asyncio.run(main())
