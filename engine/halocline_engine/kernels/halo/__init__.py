"""Halos that devices of one host store into each other's memory."""
