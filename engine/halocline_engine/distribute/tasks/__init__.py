"""A unit of work on blocks: its interface, its report, events, options and cancellation."""
