"""The client for `asyncio`."""
