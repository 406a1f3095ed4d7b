"""The parts of the reply parser, each of them pure: steps, labels, streams and JSON objects."""
