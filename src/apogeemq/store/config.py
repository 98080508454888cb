"""The store's settings: Apache's names and defaults."""

from __future__ import annotations

from typing import Final

import msgspec

from apogeemq.runtime.config import AtLeastOne, ByteSize, Count, FrameSize, LongCount, Percent, Port
from apogeemq.store.layout import INDEX_ITEM_COUNT, INDEX_SLOT_COUNT, QUEUE_FILE_SIZE

GIB: Final = 1024**3

ASYNC_FLUSH: Final = "ASYNC_FLUSH"
SYNC_FLUSH: Final = "SYNC_FLUSH"

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"


class StoreConfig(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Keys of Apache's MessageStoreConfig. "No effect" marks those that are kept and shown but change nothing here."""

    # -- where -----------------------------------------------------------------------------------------------

    # ~/store unless set.
    store_path_root_dir: str = ""
    # `commitlog` in the root folder unless set.
    store_path_commit_log: str = ""

    # -- files -----------------------------------------------------------------------------------------------

    mapped_file_size_commit_log: FrameSize = GIB
    mapped_file_size_consume_queue: AtLeastOne = QUEUE_FILE_SIZE
    message_index_enable: bool = True
    max_hash_slot_num: AtLeastOne = INDEX_SLOT_COUNT
    max_index_num: AtLeastOne = INDEX_ITEM_COUNT
    # Ours: consume queue files that are mapped at once; each takes a descriptor. 0: as many as there is room for.
    max_mapped_queue_files: Count = 0
    # The kernel reads ahead and keeps pages as it sees fit; one thread writes: no effect.
    transient_store_pool_enable: bool = False
    transient_store_pool_size: Count = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    warm_maped_file_enable: bool = False
    use_reentrant_lock_when_put_message: bool = True
    enable_consume_queue_ext: bool = False

    # -- flushing --------------------------------------------------------------------------------------------

    # ASYNC_FLUSH answers at once and flushes every flushIntervalCommitLog ms; SYNC_FLUSH answers when it is on disk.
    flush_disk_type: str = ASYNC_FLUSH
    flush_interval_commit_log: AtLeastOne = 500
    flush_interval_consume_queue: AtLeastOne = 1_000
    # Milliseconds a sender waits for its message to be on disk.
    sync_flush_timeout: AtLeastOne = 5_000
    # Everything that is dirty is flushed each time: no effect.
    flush_commit_log_timed: bool = True
    flush_commit_log_least_pages: Count = 4
    flush_consume_queue_least_pages: Count = 2
    flush_commit_log_thorough_interval: Count = 10_000
    flush_consume_queue_thorough_interval: Count = 60_000
    commit_interval_commit_log: Count = 200
    commit_commit_log_least_pages: Count = 4
    commit_commit_log_thorough_interval: Count = 200

    # -- limits ----------------------------------------------------------------------------------------------

    # Bytes of a body.
    max_message_size: AtLeastOne = 4 * 1024 * 1024
    # Messages and bytes one pull brings. Records that are probably not in memory are not told apart: "in disk" and the
    # ratio have no effect.
    max_transfer_count_on_message_in_memory: AtLeastOne = 32
    max_transfer_bytes_on_message_in_memory: AtLeastOne = 256 * 1024
    max_transfer_count_on_message_in_disk: AtLeastOne = 8
    max_transfer_bytes_on_message_in_disk: AtLeastOne = 64 * 1024
    access_message_in_memory_max_ratio: Percent = 40
    # Always the same number of entries is looked through for matching tags: no effect.
    max_filter_message_size: Count = 16_000
    pull_batch_max_message_count: AtLeastOne = 160
    # Messages a query by key brings, unless it asks for fewer; the second has no effect.
    max_msgs_num_batch: AtLeastOne = 64
    default_query_max_num: AtLeastOne = 32
    # Appending is one step on one thread; it cannot queue up behind a lock: no effect.
    os_page_cache_busy_time_out_mills: LongCount = 1_000
    put_msg_index_hight_water: Count = 600_000

    # -- opening ---------------------------------------------------------------------------------------------

    check_crc_on_recover: bool = msgspec.field(default=True, name="checkCRCOnRecover")
    # Ours to choose after what the checkpoint says: no effect.
    max_recovery_commitlog_files: Count = 30

    # -- deleting --------------------------------------------------------------------------------------------

    # Hour of the day at which files older than fileReservedTime hours are deleted; several with `;`.
    delete_when: str = "04"
    file_reserved_time: Count = 72
    # Per cent of the disk in use: above the first, expired files go at any hour; above the second, the oldest go
    # though not expired (if cleanFileForciblyEnable); above the third, messages are refused.
    disk_max_used_space_ratio: Percent = 75
    disk_space_clean_forcibly_ratio: Percent = 85
    disk_space_warning_level_ratio: Percent = 90
    clean_file_forcibly_enable: bool = True
    # Looked for every ten seconds: the interval has no effect. Files deleted in one look.
    clean_resource_interval: AtLeastOne = 10_000
    delete_file_batch_max: AtLeastOne = 10
    # Files are deleted at once; a map that is still read keeps its pages: no effect.
    delete_commit_log_files_interval: Count = 100
    delete_consume_queue_files_interval: Count = 100
    destroy_maped_file_interval_forcibly: Count = 120_000
    redelete_hanged_file_interval: Count = 120_000

    # -- delayed messages ------------------------------------------------------------------------------------

    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    # Milliseconds between two writes of how far each level has been delivered.
    flush_delay_offset_interval: AtLeastOne = 10_000
    # Timer messages: to any second, up to timerMaxDelaySec ahead.
    timer_wheel_enable: bool = True
    timer_precision_ms: AtLeastOne = 1_000
    timer_max_delay_sec: AtLeastOne = 3 * 24 * 3600
    mapped_file_size_timer_log: FrameSize = 100 * 1024 * 1024

    # -- replication -----------------------------------------------------------------------------------------

    broker_role: str = ASYNC_MASTER
    # 0: the broker's port + 1.
    ha_listen_port: Port = 0
    ha_master_address: str = ""
    ha_send_heartbeat_interval: AtLeastOne = 5_000
    ha_housekeeping_interval: AtLeastOne = 20_000
    ha_transfer_batch_size: AtLeastOne = 32 * 1024
    ha_max_gap_not_in_sync: ByteSize = 256 * 1024 * 1024
    slave_timeout: AtLeastOne = 3_000
    offset_check_in_slave: bool = False
    total_replicas: AtLeastOne = 1
    in_sync_replicas: AtLeastOne = 1
    min_in_sync_replicas: AtLeastOne = 1

    # -- other kinds of store, refused when asked for --------------------------------------------------------

    store_type: str = "default"
    enable_d_leger_commit_log: bool = msgspec.field(default=False, name="enableDLegerCommitLog")
    duplication_enable: bool = False
