"""Transactions in a broker's files: their states in `__transaction_state`, and open ones in partition logs."""
