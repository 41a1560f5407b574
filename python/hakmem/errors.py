"""The one kind of error a user sees: a line that says what is wrong, and the exit status it ends with."""

EXIT_FAILURE = 1
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


class HakmemError(Exception):
    def __init__(self, message: str, exit_status: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.exit_status = exit_status
