"""A local page to plan a study in, run it and look at what came of it. It calls what the command line calls."""
