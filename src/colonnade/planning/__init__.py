"""From an agreement to a session's plan: who computes what, at which grid and noise, and what each party sees."""
