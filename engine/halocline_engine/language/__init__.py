"""Text becomes syntax."""
