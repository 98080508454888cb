"""The store's settings: Apache's names and defaults."""

from __future__ import annotations

from typing import Final

import msgspec

from apogeemq.store.layout import INDEX_ITEM_COUNT, INDEX_SLOT_COUNT, QUEUE_FILE_SIZE

GIB: Final = 1024**3


class StoreConfig(msgspec.Struct, rename="camel"):
    store_path_root_dir: str = ""
    # `commitlog` in the root folder unless set.
    store_path_commit_log: str = ""
    mapped_file_size_commit_log: int = GIB
    mapped_file_size_consume_queue: int = QUEUE_FILE_SIZE
    # ASYNC_FLUSH answers at once and flushes every flushIntervalCommitLog ms; SYNC_FLUSH answers when it is on disk.
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_interval_consume_queue: int = 1000
    sync_flush_timeout: int = 5000
    max_message_size: int = 4 * 1024 * 1024
    check_crc_on_recover: bool = msgspec.field(default=True, name="checkCRCOnRecover")
    message_index_enable: bool = True
    max_hash_slot_num: int = INDEX_SLOT_COUNT
    max_index_num: int = INDEX_ITEM_COUNT
    # Hour of the day at which files older than fileReservedTime hours are deleted; several with `;`.
    delete_when: str = "04"
    file_reserved_time: int = 72
    disk_max_used_space_ratio: int = 75
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    # Ours: consume queue files that are mapped at once; each takes a descriptor.
    max_mapped_queue_files: int = 400
