"""Control of long work: interruption of loops, and processes that a signal has stopped."""
