"""A party's file as columns of integers: found, read, checked, kept outside of memory where large, encoded."""
