"""Warnings about the text of a program."""

from __future__ import annotations

__all__ = ["ProgramWarning"]


class ProgramWarning(UserWarning):
    """The program is valid, but may not mean what was meant.

    `message` and `hint` are as of errors; `rule`, `line`, `column` and `excerpt` as of
    `ProgramError`.
    """

    def __init__(
        self, message: str, *, hint: str = "", rule: str = "", line: int = 0, column: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.rule = rule
        self.line = line
        self.column = column
        self.excerpt = ""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: "
        lines = (f"{place}{self.message}", self.excerpt, self.hint)
        return "\n".join(part for part in lines if part)
