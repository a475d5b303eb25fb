"""Transactions in a broker's files: states in `__transaction_state`, and open transactions in partition logs."""
