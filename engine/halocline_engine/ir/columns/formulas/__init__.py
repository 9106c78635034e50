"""What each column operator computes at one point, as expressions of the IR."""
