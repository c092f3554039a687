"""The paper's product: Boneh, Goh and Nissim over a pairing."""
