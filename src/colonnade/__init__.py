"""One differentially private regression over columns that different organisations hold about the same people."""
