"""Tests of the target-neutral passes."""
