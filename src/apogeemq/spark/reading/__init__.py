"""What executors do: pull ranges of offsets and turn records into Arrow batches."""
