"""What travels and what is stored. No I/O."""
