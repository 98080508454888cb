"""Which messages a subscription wants. Pure."""
