"""The text of a pipeline file: TOML with its lines, parameters, SQL and schemas. Pure."""
