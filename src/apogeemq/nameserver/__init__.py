"""The name server: who serves which topic, told by brokers, asked by everybody."""
