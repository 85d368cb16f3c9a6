"""Reads the penguins, draws a chart and writes a report. Runs in the sandbox, where only workspace/ may be written."""

import base64
import html
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

penguins = pd.read_csv("workspace/penguins.csv").dropna(subset=["body_mass_g", "flipper_length_mm"])
summary = penguins.groupby("species").agg(
    birds=("species", "size"),
    mean_mass_g=("body_mass_g", "mean"),
    mean_flipper_mm=("flipper_length_mm", "mean"),
)

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
for species, group in penguins.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], s=18, alpha=0.75, label=species)
axes.set_xlabel("Flipper length (mm)")
axes.set_ylabel("Body mass (g)")
axes.set_title("Longer flippers, heavier birds")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("workspace/chart.png", dpi=120)

picture = base64.b64encode(Path("workspace/chart.png").read_bytes()).decode()
rows = "\n".join(
    f"<tr><th>{html.escape(str(name))}</th><td>{row.birds:.0f}</td>"
    f"<td>{row.mean_mass_g:,.0f} g</td><td>{row.mean_flipper_mm:.1f} mm</td></tr>"
    for name, row in summary.iterrows()
)
Path("workspace/report.html").write_text(
    f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Penguins</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1d2733; }}
  table {{ border-collapse: collapse; width: 100%; margin: 1.5rem 0; }}
  th, td {{ text-align: right; padding: .4rem .6rem; border-bottom: 1px solid #d8dee6; }}
  th:first-child {{ text-align: left; }}
  td {{ font-variant-numeric: tabular-nums; }}
  img {{ width: 100%; }}
</style>
<h1>Draft</h1>
<p>{len(penguins)} birds with known mass and flipper length.</p>
<table>
<tr><th>Species</th><th>Birds</th><th>Mean mass</th><th>Mean flipper</th></tr>
{rows}
</table>
<img alt="Flipper length against body mass, by species" src="data:image/png;base64,{picture}">
"""
)
print(summary.round(1).to_string())
