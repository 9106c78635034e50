"""Preparation of requests: identity, checked inputs, pages, limits."""
