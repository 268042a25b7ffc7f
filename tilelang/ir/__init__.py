"""The tile program as a plain tree of records, and the TIRX function made from it."""
