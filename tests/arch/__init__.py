"""Tests of the plain tables of targets."""
