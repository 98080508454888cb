"""The data source `rocketmq` beside Spark's own Kafka source, each in a Spark of its own."""
