"""The console that results are printed on; the only module that imports rich's console at once."""

from rich.console import Console

from letters_source.cli.output import silence_output


class ResultConsole(Console):
    """A console whose reader may leave: `letters load | head -1` is no failed load."""

    def on_broken_pipe(self) -> None:
        """Print no more, where rich would end the process with 1; rich calls this."""
        silence_output()
