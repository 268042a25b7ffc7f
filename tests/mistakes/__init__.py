"""Small kernels that settle what a diagnostic must do, and the test that reads their marks."""
