"""Symmetric systems on trees (Hines systems), ragged batches of them."""
