"""The ReACT agent: think, call a checked tool, read the observation, until there is an answer."""
