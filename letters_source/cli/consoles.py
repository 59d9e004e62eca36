"""The console that results are printed on; in a module of its own, because importing rich is slow."""

from rich.console import Console

from letters_source.cli.output import silence_output


class ResultConsole(Console):
    """A console whose reader may leave: `letters load | head -1` is no failed load."""

    def on_broken_pipe(self) -> None:
        """Print no more, where rich would end the process with 1; rich calls this."""
        silence_output()
