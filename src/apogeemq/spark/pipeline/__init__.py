"""Pipelines: one TOML file of sources, steps, quality rules and sinks, run on Spark."""
