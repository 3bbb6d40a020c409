"""`python -m lanesum` is the `lanesum` executable."""

from lanesum._command import main

if __name__ == "__main__":
    main()
