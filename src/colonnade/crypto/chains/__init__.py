"""Products of three owners and more: shares of record-wise products, then the two-owner product on the shares."""
