"""Execution of generated kernels: arguments, memory, launches."""
