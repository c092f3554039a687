"""A study on separate machines, over NVIDIA FLARE: folders for organisations, the jobs that run there, the commands."""
