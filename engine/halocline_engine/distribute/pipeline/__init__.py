"""Blocks that overlap: one is read while another one is computed and a third one written."""
