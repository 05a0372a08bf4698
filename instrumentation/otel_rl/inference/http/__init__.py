"""Inference engines that a program reaches with an HTTP client of its own, and not with a client for models.

===================  ============================================================
``paths``            which requests ask an engine for tokens, or control it
``protocols``        bodies of the engines in the form of OpenAI's completions
``other_protocols``  streams of protocols other than OpenAI's
``bodies``           what a request or an answer is, without reading what is long
``event_streams``    the events of a streamed answer, as they go past
``streamed_answers`` what a streamed answer says, of which little is parsed
``chunks``           the chunks of an answer on their way to the program
``followed_chunks``  what they do to the call that they answer
``calls``            one request, from its headers to the end of its answer
``base_call``        what all requests have in common that are followed
``control_calls``    one request that changes an engine
``services``         which requests go to a service that the user has named
``service_calls``    one request to such a service
``senders``          wrappers around the method of a client that sends a request
===================  ============================================================
"""
