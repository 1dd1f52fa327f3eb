"""Other frameworks' shapes for what this library does; each needs its own package installed."""
