"""Messages on disk, in Apache RocketMQ's files: commit log, consume queues, key index."""
