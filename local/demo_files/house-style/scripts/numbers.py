"""Write a number in the house style."""

import sys

value = float(sys.argv[1])
print(f"{value:,.0f}".replace(",", "\u202f") if value >= 10_000 else f"{value:g}")
