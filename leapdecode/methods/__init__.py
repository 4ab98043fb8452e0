"""Decoding methods: every module here that defines a `Method` is one, found by itself."""

from leapdecode.methods.registry import DEFAULT, find, make, names

__all__ = ["DEFAULT", "find", "make", "names"]
