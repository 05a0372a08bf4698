"""One boundary for all tool calls.

==============  ============================================================
``calls``       one ``execute_tool`` span and one duration per call
``open_tools``  the tool that runs in a context
==============  ============================================================
"""
