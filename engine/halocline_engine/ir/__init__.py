"""The meaning of a program."""
