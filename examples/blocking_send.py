"""Send without asyncio. Threads may share the producer."""

import sys
from concurrent.futures import ThreadPoolExecutor

from apogeemq.blocking import Message, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(NAME_SERVER, group="blocking-shop") as producer:
    result = producer.send("orders", b"a lamp", tags="paid", keys=["43"])
    print(result.status.name)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: producer.send("orders", b"no. %d" % number), range(20)))
    print(len(results), "from four threads")

    sending = [producer.send_soon(Message("orders", b"no. %d" % number)) for number in range(100)]
    print({future.result().status.name for future in sending})
