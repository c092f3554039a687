"""What a party agrees to and what it has spent: its policy, its ledger, and the guard that asks both."""
