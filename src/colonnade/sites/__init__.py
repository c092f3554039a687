"""An organisation's folder: what its files state of a study, and its part in a session of each kind."""
