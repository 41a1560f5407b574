"""A client for the Redis protocol, as small as the tests allow."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from types import TracebackType

Word = bytes | str | int
Reply = bytes | int | None | list["Reply"]


class RedisError(Exception):
    """The server answered with an error."""


class RedisClient:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._input = self._socket.makefile("rb")

    def __enter__(self) -> RedisClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._input.close()
        self._socket.close()

    def call(self, *words: Word) -> Reply:
        self._socket.sendall(encode(words))
        return self._read()

    def pipeline(self, commands: Iterable[tuple[Word, ...]], batch: int = 100) -> list[Reply]:
        """Sends the commands in batches, so that neither side's buffers fill up."""
        replies: list[Reply] = []
        pending: list[bytes] = []
        for command in commands:
            pending.append(encode(command))
            if len(pending) == batch:
                replies += self._exchange(pending)
                pending.clear()
        return replies + self._exchange(pending)

    def _exchange(self, encoded: list[bytes]) -> list[Reply]:
        self._socket.sendall(b"".join(encoded))
        return [self._read() for _ in encoded]

    def _read(self) -> Reply:
        line = self._input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self._input.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        raise ConnectionError(f"not a Redis reply: {line!r}")


def encode(words: tuple[Word, ...]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)
