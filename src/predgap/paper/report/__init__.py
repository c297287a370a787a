"""Pages for people: Markdown, and HTML that needs nothing but itself.

- `page`: what a page consists of, and how it is written in both forms
- `words`: how pages call things, and how they write numbers
- `drawing`, `figures`: pictures of experiments, as SVG, for wide screens and narrow ones
- `pivots`, `raw`: tables as in the paper, and the long ones that are folded
- `summary`: what came out, before any detail
- `sampling_sections`, `ranking_sections`: what a page says about each experiment
- `reproduction`: the page that sets published and recomputed numbers side by side
"""
