"""One boundary for all tool calls.

==============  ============================================================
``calls``       one ``execute_tool`` span and one duration per call
``open_tools``  the tool that runs in a context
``outcomes``    how a call ended, in the same words for every kind of tool
``attempts``    which call repeats the failed one before it
``sizes``       how large arguments and results are
==============  ============================================================
"""
