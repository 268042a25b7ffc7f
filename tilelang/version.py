"""Which release of the language this is, and of the package."""

from __future__ import annotations

LANGUAGE_VERSION = "0.1.15"  # the release of the language whose contract this package follows
PACKAGE_VERSION = "0.1.0"
