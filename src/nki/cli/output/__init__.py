"""The output of ``--json``: records of one schema; the page ``docs/json.md`` is made from it.

A record is a ``TypedDict``. Its annotations hold the meaning and the unit of each field.
"""
