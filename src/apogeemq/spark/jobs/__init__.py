"""Ready pipelines: a TOML file each, with Python steps where SQL cannot say it, and sample data to try them with."""
