"""Pages for people: Markdown, and HTML that needs nothing but itself.

- `page`: what a page consists of, and how it is written in both forms
- `words`: how pages call things, and how they write numbers
- `figures`: pictures of experiments, as SVG
- `sections`: what a page says about each experiment
- `reproduction`: the page that sets published and recomputed numbers side by side
"""
