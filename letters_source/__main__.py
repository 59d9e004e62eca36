"""Run the `letters` command as `python -m letters_source`."""

from letters_source.cli.process import main

if __name__ == "__main__":
    main()
