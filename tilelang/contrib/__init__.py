"""What is known about installed toolchains, by the names that kernels and tests import it under."""
