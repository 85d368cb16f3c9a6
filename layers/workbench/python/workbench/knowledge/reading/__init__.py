"""From a file's bytes to the blocks of its text. Runs in a child process with limits; see :mod:`.child`."""
