"""Sends the files of a run to an OTLP destination later; what was acknowledged is never sent again.

===============  ==================================================================
``batches``      lines of a file as one export request, with their place in the file
``ledger``       what was sent of each file, and what became of it
``destinations``  OTLP over HTTP and gRPC, as the standard variables configure it
``sending``      the files of a run, one request after the other, with retries
===============  ==================================================================
"""
