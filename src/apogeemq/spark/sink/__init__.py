"""Messages from Spark to RocketMQ."""
