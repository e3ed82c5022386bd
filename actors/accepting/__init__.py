"""Acceptance: ready-made checks, what combines them, and what goes on record."""
