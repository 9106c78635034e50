"""Model time: the clock of a run, and records of variables that vary with time."""
