"""Tests of what all targets share: launch plans and the driver."""
