"""The line model and the edit engine: bytes in, bytes or a refusal out. Pure."""
