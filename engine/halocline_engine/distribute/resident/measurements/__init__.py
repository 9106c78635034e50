"""What ranks measure of their fields between steps."""
