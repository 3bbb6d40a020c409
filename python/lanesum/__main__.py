"""`python -m lanesum` is the `lanesum` executable."""

from lanesum._command import main

main()
