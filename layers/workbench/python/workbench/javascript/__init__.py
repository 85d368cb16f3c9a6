"""run_javascript: the tool, the function that evaluates for it, and the child process that each program gets."""
