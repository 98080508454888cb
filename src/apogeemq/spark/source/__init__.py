"""The data source `rocketmq`: what the driver plans. Executors read through `apogeemq.spark.reading`."""
