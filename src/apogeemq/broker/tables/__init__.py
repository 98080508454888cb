"""What a broker remembers: topics, groups, offsets, clients. No I/O; time is an argument."""
