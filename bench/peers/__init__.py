"""The allocators that HAKMEM is measured against: built from package registries, verified, and cached."""
