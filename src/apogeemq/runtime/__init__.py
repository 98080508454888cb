"""Facilities of a process: configuration, files, logs, metrics, status pages."""
