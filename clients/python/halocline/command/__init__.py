"""The `halocline` command."""
