"""Runs the notebooks of this folder, and saves them with what they show.

    python examples/notebooks/run.py

It needs nbclient and ipykernel. An error in a cell is raised, and the notebook is left as it was.
"""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

QUIET = "ignore:IProgress not found"  # tqdm, which shap imports, looks for Jupyter's progress bars

for path in sorted(Path(__file__).parent.glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(path.parent), env=os.environ | {"PYTHONWARNINGS": QUIET})
    nbformat.write(notebook, path)
    print(f"{path.name}: {path.stat().st_size:,} bytes")
