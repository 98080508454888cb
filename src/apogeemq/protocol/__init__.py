"""Apache RocketMQ's wire protocol, sans I/O: bytes in, values out, and back."""
