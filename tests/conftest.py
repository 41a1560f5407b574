"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    # A shell starts its background jobs with this signal ignored, and so would be the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
