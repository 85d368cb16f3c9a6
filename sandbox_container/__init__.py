"""The trusted supervisor that runs model-written code, and the launcher that takes everything away from it.

Standard library only, so that it can be read in one sitting and runs under ``python3 -I`` on 3.11 to 3.13.
``README.md`` beside this file says how the parts fit and which environment variables it reads.
"""
