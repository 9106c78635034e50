"""The two modes of a run: streamed from store to store, or resident in memory."""
