"""`python -m dokimos` is the command line."""

from dokimos._cli.main import main

if __name__ == "__main__":
    main()
