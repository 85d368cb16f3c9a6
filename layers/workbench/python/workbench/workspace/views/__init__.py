"""What is shown of files without changing them: listings, pages of lines, hits, pictures. Pure."""
