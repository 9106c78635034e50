"""Passes over a schedule in the making: loop nests, inlining, shared subexpressions."""
