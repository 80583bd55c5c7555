"""The store: what a peer keeps. One narrow class, one acceptance suite (tests/adapters/test_store.py)."""
