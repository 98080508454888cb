"""Data source `rocketmq-store`: the messages in a broker's store folder, read without the broker."""
