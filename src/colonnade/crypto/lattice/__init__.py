"""The default product: integer columns sealed under ring-LWE, one round."""
