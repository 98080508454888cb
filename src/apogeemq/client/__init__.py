"""The client: producers and consumers, asyncio first. The same without `await` is in `apogeemq.blocking`."""
