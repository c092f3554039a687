"""What is made of a release at no cost: tables, tests, rows, models of any column. It sees noisy moments alone."""
