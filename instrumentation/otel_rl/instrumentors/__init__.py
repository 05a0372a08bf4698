"""One folder per instrumented library: the instrumentor in ``__init__``, its patch functions in ``patch``.

What they share:

===================  ====================================================================
``base``             the class ``Instrumentor``: versions, modules, life, state
``by_object``        values of ours by an object of a library, for as long as that lives
``coexistence``      whether another instrumentor of the same library is active
``companions``       versions of the distributions that a library is instrumented with
``dynamo``           keeps our frames out of ``torch.compile``
``engine_tracers``   tracers of engines beside ours
``followed_calls``   calls of a library's function inside of an operation
``httpx_clients``    hooks of ``httpx``, and of ``httpx2``, which has the same classes
``named_functions``  rollout and reward functions of the program, named by the user
``observing``        hooks around functions, coroutines, generators and async generators
``patch_functions``  patch functions of modules whose functions are patched alike
``patching``         replacing attributes, and putting them back
``stainless_answers`` answers of clients that Stainless generates: streams, raw responses
``stainless_chunks`` the body of a raw response of theirs that the program reads itself
``stainless_clients`` hooks of these clients: ``openai``, ``anthropic``
``stainless_requests`` their requests
``summary_writers``  hooks of the ``SummaryWriter`` of torch, and of tensorboardX
``timed_trainers``   hooks of verl and SkyRL, whose timer names the parts of a step
``vector_episodes``  episodes of environments that are stepped together
===================  ====================================================================
"""
