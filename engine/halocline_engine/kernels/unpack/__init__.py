"""Cells of decoded chunks, brought to where they are used."""
