"""Poll without asyncio, as a job that runs now and then: read what is there, and leave."""

import sys

from apogeemq.blocking import LitePullConsumer, LitePullOptions, Message, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(NAME_SERVER, group="jobs") as producer:
    producer.send_batch([Message("jobs", b"job %d" % number) for number in range(10)])

with LitePullConsumer(
    NAME_SERVER, group="nightly", topic="jobs", options=LitePullOptions(start_from="first")
) as consumer:
    count = 0
    while messages := consumer.poll(timeout_seconds=1, max_messages=32):
        count += len(messages)
        # The next poll says that these were dealt with.
print(count, "jobs done")
