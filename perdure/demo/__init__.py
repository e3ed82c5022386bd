"""The demo: one long report job that is killed again and again."""
