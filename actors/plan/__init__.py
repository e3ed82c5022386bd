"""Plans: what is to be done in which order, and how it is judged."""
