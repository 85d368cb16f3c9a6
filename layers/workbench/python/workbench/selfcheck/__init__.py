"""The self-check of a deployment's sandbox: a program that tries everything, and what must have come of it."""
