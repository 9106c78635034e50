"""The resident mode: blocks stay in memory, and exchange halos between their steps."""
