"""Memory of a worker process: what it would otherwise do over again with every task, or every chunk of records.

Spark has a worker collect garbage after each task. Python looks at all objects then, nearly all of them those of
loaded modules, that no one will ever let go of: tens of milliseconds, as much as reading ten thousand messages.
"""

from __future__ import annotations

import gc
from functools import cache

from apogeemq.runtime.heap import keep_large_blocks


@cache
def settle_worker() -> None:
    """For this process, from now on. A task calls it when its modules are loaded; all but the first do so in vain."""
    keep_large_blocks()
    gc.freeze()
