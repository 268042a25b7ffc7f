"""Tests of the language server: documents, features, the analysis process, real sessions over stdio."""
