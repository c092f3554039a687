"""The paper's tables, our utility against its floors, and the overhead study, each from one command."""
