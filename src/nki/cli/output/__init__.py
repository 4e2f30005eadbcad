"""The output of ``--json``: records of one schema, of which the page ``docs/json.md`` is made.

A record is a ``TypedDict``. Its annotations hold the meaning and the unit of each field.
"""
