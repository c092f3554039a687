"""What several tests share: studies, sessions, wires and adversaries. Imported as `tests.helpers.<name>`."""
