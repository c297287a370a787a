"""Pages for people: Markdown, and HTML that needs nothing but itself.

- `page`: what a page consists of, and how it is written in both forms
- `figures`: pictures of experiments, as SVG
- `reproduction`: the page that sets published and recomputed numbers side by side
"""
