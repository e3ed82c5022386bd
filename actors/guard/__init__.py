"""Finds work that goes round in circles, by what it does and what comes of it."""

from __future__ import annotations
