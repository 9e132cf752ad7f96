"""Pictures of a terminal, for this project's pages: a command runs on a terminal of its own, and what stands there in the end is drawn."""
